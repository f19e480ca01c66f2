"""Judges one compiled graph in a process of its own: `python -m opprof.proof CODE GRAPH MAP PARENT` prints verdicts as JSON.

It ends with the process PARENT, which began it. Needs PyTorch.
"""

import json
import sys
from pathlib import Path

from opprof.errors import OpprofError
from opprof.tools import end_with


def main() -> int:
    code, graph, launches = map(Path, sys.argv[1:4])
    end_with(int(sys.argv[4]))
    # PyTorch takes seconds to load, in which the command may be killed too.
    from opprof.proof.judge import confidence_shares, judge
    from opprof.proof.observe import observe_all

    try:
        runs = observe_all(code, graph)
    except Exception as error:
        # A kernel that fails, a graph that can't be run: nothing is proven, and that is the answer.
        what = str(error) if isinstance(error, OpprofError) else f"{type(error).__name__}: {error}"
        print(json.dumps({"error": what.splitlines()[0] if what else type(error).__name__}))
        return 0
    verdicts = judge(json.loads(launches.read_text(encoding="utf-8")), runs)
    print(
        json.dumps(
            {
                "launches": [verdict.to_json() for verdict in verdicts],
                "confidence": confidence_shares(verdicts),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Judges one compiled graph in a process of its own: `python -m opprof.proof CODE GRAPH MAP` prints verdicts as JSON. Needs PyTorch."""

import json
import sys
from pathlib import Path

from opprof.errors import OpprofError
from opprof.proof.judge import confidence_shares, judge
from opprof.proof.observe import observe_all


def main() -> int:
    code, graph, launches = map(Path, sys.argv[1:4])
    try:
        runs = observe_all(code, graph)
    except OpprofError as error:
        print(json.dumps({"error": str(error)}))
        return 0
    verdicts = judge(json.loads(launches.read_text()), runs)
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

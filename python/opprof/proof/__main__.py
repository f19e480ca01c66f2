"""Judges one compiled graph in a process of its own: `python -m opprof.proof CODE GRAPH MAP PARENT [SCRIPT]` prints verdicts as JSON.

It ends with the process PARENT, which began it. The script is run where the graph has operators that PyTorch does not define.
Needs PyTorch.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from opprof.errors import OpprofError
from opprof.progress import progress
from opprof.tools import end_with


def _define_operators(graph: Path, script: Path | None) -> None:
    """Runs the script where that may define operators of the graph that are no operators yet: a library or the program registers its own."""
    from opprof.export.model_script import load_model_script
    from opprof.proof.trace import unknown_operators

    document = json.loads(graph.read_text(encoding="utf-8"))
    unknown = unknown_operators(document)
    if unknown and script is not None:
        progress(f"running {script}, as {unknown[0]} is no operator of PyTorch's own")
        with _defaults_kept():
            load_model_script(script)
        unknown = unknown_operators(document)
    if unknown:
        run = f", and running {script} defines none of that name" if script else ""
        raise OpprofError(f"{unknown[0]} is no operator of PyTorch's own{run}")


@contextlib.contextmanager
def _defaults_kept() -> Iterator[None]:
    """What a script sets for all that is computed is the script's: the graph has its own."""
    import torch

    dtype, device, grad = (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_grad_enabled(),
    )
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_default_device(device)
        torch.set_grad_enabled(grad)


def main() -> int:
    # The answer is all that goes where it is read: code that is run may print.
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    code, graph, launches = map(Path, sys.argv[1:4])
    script = Path(sys.argv[5]) if len(sys.argv) > 5 else None
    end_with(int(sys.argv[4]))
    # PyTorch takes seconds to load, in which the command may be killed too.
    from opprof.proof.judge import confidence_shares, judge
    from opprof.proof.observe import observe_all

    try:
        _define_operators(graph, script)
        runs = observe_all(code, graph)
    except (Exception, SystemExit) as error:
        # A kernel that fails, a graph that can't be run: nothing is proven, and that is the answer.
        what = str(error) if isinstance(error, OpprofError) else f"{type(error).__name__}: {error}"
        what = what.splitlines()[0] if what else type(error).__name__
        print(json.dumps({"error": what}), file=answer, flush=True)
        return 0
    verdicts = judge(json.loads(launches.read_text(encoding="utf-8")), runs)
    print(
        json.dumps(
            {
                "launches": [verdict.to_json() for verdict in verdicts],
                "confidence": confidence_shares(verdicts),
            }
        ),
        file=answer,
        flush=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

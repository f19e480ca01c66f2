"""Judges compiled graphs in a process of its own: `python -m opprof.proof GRAPHS PARENT [SCRIPT]` prints verdicts, a line of JSON for each.

GRAPHS is a file with a line of JSON for each graph: its `code`, its `graph`, and the map of its `launches`. The process ends with
PARENT, which began it, and with the first graph that fails, without a verdict on it where others ran before. The script is run, once,
where a graph has operators that PyTorch does not define. Needs PyTorch.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opprof.errors import OpprofError
from opprof.progress import progress
from opprof.tools import end_with


class _Script:
    """The program's script, which may define operators: a library or the program registers its own."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._has_run = False
        self._failure: BaseException | None = None

    def define_operators(self, graph: Path) -> None:
        """Runs the script where the graph has operators that are none yet, and it has not run before."""
        from opprof.export.model_script import load_model_script
        from opprof.proof.trace import unknown_operators

        document = json.loads(graph.read_text(encoding="utf-8"))
        unknown = unknown_operators(document)
        if unknown and self.path is not None and not self._has_run:
            progress(f"running {self.path}, as {unknown[0]} is no operator of PyTorch's own")
            self._has_run = True
            try:
                with _defaults_kept():
                    load_model_script(self.path)
            except (Exception, SystemExit) as error:
                self._failure = error
            unknown = unknown_operators(document)
        if unknown and self._failure:
            raise OpprofError(f"{type(self._failure).__name__}: {self._failure}")
        if unknown:
            run = f", and running {self.path} defines none of that name" if self.path else ""
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


def _judge(asked: dict[str, Any], script: _Script) -> dict[str, Any]:
    from opprof.proof.judge import confidence_shares, judge
    from opprof.proof.observe import observe_all

    code, graph = Path(asked["code"]), Path(asked["graph"])
    try:
        script.define_operators(graph)
        runs = observe_all(code, graph)
    except OpprofError as error:
        if error.__cause__ is not None:
            raise
        # A graph that can't be run: nothing is proven, and that is the answer.
        return _failed(error)
    verdicts = judge(asked["launches"], runs)
    return {
        "launches": [verdict.to_json() for verdict in verdicts],
        "confidence": confidence_shares(verdicts),
    }


def _failed(error: BaseException) -> dict[str, Any]:
    what = str(error) if isinstance(error, OpprofError) else f"{type(error).__name__}: {error}"
    return {"error": what.splitlines()[0] if what else type(error).__name__}


def main() -> int:
    # The answers are all that goes where they are read: code that is run may print.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # PyTorch takes seconds to load, in which the command may be killed too.
    end_with(int(sys.argv[2]))
    # Where there is none, no graph has failed.
    import torch  # noqa: F401

    script = _Script(Path(sys.argv[3]) if len(sys.argv) > 3 else None)
    with open(sys.argv[1], encoding="utf-8") as graphs:
        for number, line in enumerate(graphs):
            try:
                answer = _judge(json.loads(line), script)
            except (Exception, SystemExit) as error:
                # All that uses a GPU fails once a kernel did: nothing is judged after a failure, and none is held against a graph that
                # had others before it.
                if number == 0:
                    print(json.dumps(_failed(error)), file=answers, flush=True)
                break
            print(json.dumps(answer), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

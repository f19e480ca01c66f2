"""`opprof diff`, `top` and `explain`: what changed between recordings, what takes most of one, what a finding means. Needs no PyTorch."""

from collections.abc import Sequence
from pathlib import Path

from opprof.chain import page_options
from opprof.tools import ask_driver, run_driver

#: The status with which opprof-driver says that something is slower than a check allows.
_SLOWER = 3
#: And that steps are too few to tell.
_UNKNOWN = 4


def diff(
    a: Sequence[Path],
    b: Sequence[Path],
    *,
    by: str | None = None,
    fail_above: float | None = None,
    form: str = "text",
    width: int | None = None,
    color: bool | None = None,
) -> tuple[str, bool | None]:
    """The comparison of B with A as `form` says, and whether something is slower by more than `fail_above` percent of a step: None
    where the steps are too few to tell."""
    options = [f"--to={path}" for path in b]
    options.append(f"--format={form}")
    if by is not None:
        options.append(f"--by={by}")
    if fail_above is not None:
        options.append(f"--fail-above={fail_above!r}")
    first, *others = a
    status, printed = ask_driver(
        "diff",
        first,
        *options,
        *page_options(width, color),
        others=others,
        answers=(0, _SLOWER, _UNKNOWN),
    )
    return printed.decode(), None if status == _UNKNOWN else status == _SLOWER


def top_text(
    path: Path,
    *,
    by: str | None = None,
    number: int = 20,
    width: int | None = None,
    color: bool | None = None,
) -> str:
    """What takes most of a recording, a line each."""
    options = [f"-n={number}", *([f"--by={by}"] if by else []), *page_options(width, color)]
    return run_driver("top", path, *options).decode()


def explain_text(
    finding: str,
    path: Path | None = None,
    *,
    width: int | None = None,
    color: bool | None = None,
) -> str:
    """What a finding means, and what the recording at `path` has of it."""
    options = [*([f"--run={path}"] if path else []), *page_options(width, color)]
    return run_driver("explain", finding, *options).decode()

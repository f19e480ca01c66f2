"""A folder of rewrite scripts and its index, as `opprof recommend` leaves them and a person edits them. Needs no PyTorch."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opprof.errors import OpprofError
from opprof.files import check_file, read_json, real_path
from opprof.suffixes import MLIR, MLIR_TEXT

INDEX = "rewrites.json"

#: Of a file, in bytes, in any file system.
_LONGEST_NAME = 255


@dataclass(frozen=True)
class Script:
    """One rewrite script of a folder, as its index describes it."""

    path: Path
    name: str
    title: str = ""
    finding: str = ""
    explanation: str = ""
    saves_ns: int | None = None
    places: int = 0


@dataclass(frozen=True)
class Decline:
    """What a rule looked at and left alone, and why."""

    rule: str
    reason: str
    # The first node that this is true of, and the user's line of it; empty where it is true of no node in particular.
    node: str = ""
    line: str = ""
    count: int = 1

    def __str__(self) -> str:
        place = f" at {self.node}" if self.node else ""
        place += f" ({self.line})" if self.line else ""
        more = f", and {self.count - 1} more" if self.count > 1 else ""
        return f"declined: {self.rule}: {self.reason}{place}{more}"


@dataclass(frozen=True)
class Rewrites:
    """The scripts of a folder, the best ranked first, and what its index says of all of them."""

    scripts: list[Script]
    index: dict[str, Any]
    declined: list[Decline] = field(default_factory=list)


def read_rewrites(path: Path) -> Rewrites:
    """The script `path`, or those of the folder `path`: by its index, and after them those that a person put beside."""
    if path.is_file():
        if path.suffix not in MLIR:
            raise OpprofError(
                f"{path}: is no rewrite script, whose name ends in {MLIR_TEXT}",
                remedy="give a rewrite script, or the folder that `opprof recommend` wrote",
            )
        return Rewrites([Script(path, path.stem)], {})
    if not path.is_dir():
        check_file(path)
        raise OpprofError(
            f"{path}: no such file or folder",
            remedy="give a rewrite script, or the folder that `opprof recommend` wrote",
        )
    index: dict[str, Any] = {}
    declined: list[Decline] = []
    file = path / INDEX
    if file.is_file():
        index = read_json(file)
        try:
            entries = index["rewrites"]
            if index.get("script") is not None:
                _text(index["script"])
            scripts = [
                Script(
                    path / _file_name(entry["file"]),
                    _text(entry["name"]),
                    _text(entry.get("title", "")),
                    _text(entry.get("finding", "")),
                    _text(entry.get("explanation", "")),
                    _number(entry.get("saves_ns")),
                    len(entry.get("nodes", [])),
                )
                for entry in entries
                if (path / _file_name(entry["file"])).is_file()
            ]
            declined = [_read_decline(entry) for entry in index.get("declined", [])]
        except (KeyError, TypeError, AttributeError) as error:
            raise OpprofError(f"{file}: not an index of rewrites: {error!r:.500}") from error
    else:
        scripts = []
        if not any(path.glob(f"*{MLIR_TEXT}")):
            raise OpprofError(
                f"{path}: holds no rewrites",
                remedy="give a rewrite script, or the folder that `opprof recommend` wrote",
            )
    known = {script.path for script in scripts}
    scripts += [
        Script(file, file.stem) for file in sorted(path.glob(f"*{MLIR_TEXT}")) if file not in known
    ]
    for script in scripts:
        _check_inside(script.path, path)
        check_file(script.path)
    return Rewrites(scripts, index, declined)


def _read_decline(entry: dict[str, Any]) -> Decline:
    node = entry.get("node", "")
    if isinstance(node, dict):
        node = f"{_text(node['graph'])}:{_text(node['name'])}"
    return Decline(
        _text(entry["rule"]),
        _text(entry["reason"]),
        _text(node),
        _text(entry.get("line", "")),
        _number(entry.get("count", 1)) or 1,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is no text")
    # Halves of characters, and what ends text, can be given to no program, and be in no file's name.
    if "\0" in value or value.encode(errors="ignore").decode() != value:
        raise TypeError(f"{value!r:.100} has what is no character")
    return value


def _number(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r:.100} is no whole number")


def _file_name(value: Any) -> str:
    name = _text(value)
    if len(name.encode()) > _LONGEST_NAME:
        raise TypeError(f"{name!r:.100}... is no name of a file")
    return name


def _check_inside(file: Path, folder: Path) -> None:
    """Refuses a script that lies elsewhere: whoever gives a folder has looked at what is in it, and at nothing else."""
    if file.parent != folder or real_path(file).parent != real_path(folder):
        raise OpprofError(
            f"{folder}: the script {str(file)!r} leaves the folder",
            remedy="copy it into the folder, and name it without a path in rewrites.json",
        )

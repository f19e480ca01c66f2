"""Keeps PyTorch's compiled modules where its installation has none and Python may write none beside them. Needs no PyTorch.

Containers often say PYTHONDONTWRITEBYTECODE, and installers like uv compile nothing: every process then compiles PyTorch's Python once more,
and the modules of `opprof optimize` took 17 seconds to be loaded on such a machine (docs/measurements.md).
"""

import contextlib
import importlib.util
import os
import sys
from pathlib import Path

from opprof.errors import OpprofError
from opprof.files import check_own


def keep_bytecode(package: str = "torch") -> Path | None:
    """Has this process and those that it begins keep bytecode in the user's cache, and returns its folder; None where there is no need, or no
    folder of the user's own. To be called before the package is imported.
    """
    if not sys.dont_write_bytecode or sys.pycache_prefix is not None or package in sys.modules:
        return None
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.has_location or spec.origin is None:
        return None
    if Path(importlib.util.cache_from_source(spec.origin)).exists():
        return None
    folder = _folder()
    if folder is None:
        return None
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return folder


def _folder() -> Path | None:
    """What is read from it is run: nobody else may write there, or put another in its place."""
    try:
        given = Path(os.environ.get("XDG_CACHE_HOME", ""))
        folder = given if given.is_absolute() else Path.home() / ".cache"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("opprof", "bytecode"):
            folder /= name
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            if folder.is_symlink() or not folder.is_dir():
                return None
            check_own(folder)
    except (OpprofError, OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None

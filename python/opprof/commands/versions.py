"""`opprof --version`: what is installed of opprof and of what it works with. Loads neither PyTorch nor a GPU's driver."""

import ctypes
import platform
import re
from importlib import metadata

from opprof.errors import OpprofError
from opprof.recording.library import find_cupti
from opprof.tools import run_tool
from opprof.version import __version__


def describe_versions() -> str:
    """A line each; what isn't there is said to be absent."""
    return "\n".join(
        (
            f"opprof {__version__}",
            f"  LLVM     {_llvm()}",
            f"  PyTorch  {_torch()}",
            f"  CUPTI    {_cupti()}",
            f"  Python   {platform.python_version()}",
        )
    )


def _llvm() -> str:
    try:
        said = run_tool("opprof-driver", ["--version"], quiet=True).decode()
    except OpprofError:
        return "not found: opprof's native tools are missing"
    found = re.search(r"LLVM version (\S+)", said)
    return found[1] if found else "unknown"


def _torch() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "not installed"


def _cupti() -> str:
    path = find_cupti()
    if path is None:
        return "not found"
    version = ctypes.c_uint32()
    try:
        ctypes.CDLL(path).cuptiGetVersion(ctypes.byref(version))
    except (OSError, AttributeError) as error:
        return f"{path}: {error}"
    return f"API {version.value}, {path}"

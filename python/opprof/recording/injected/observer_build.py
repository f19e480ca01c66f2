"""Finds the observer of the PyTorch and the Python that a program runs on, and builds it where there is none, once.

LibTorch promises no ABI across versions, so that no library fits all of them: a package holds the sources. Nothing of opprof can be
imported here, as in observing.
"""

import contextlib
import fcntl
import glob
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from types import ModuleType

#: What is compiled of `sources`, the root of a tree as the repository's.
OBSERVER = (
    "lib/Torch/Observer*.cpp",
    "lib/Torch/Allocations.cpp",
    "lib/Torch/StepCounter.cpp",
    "lib/Capture/FileWriter.cpp",
    "lib/Capture/Crc32.cpp",
)
FRAMES = ("lib/Torch/Frames.cpp",)

#: A compiler that takes longer has met something else.
_MOST_SECONDS = 600


class BuildError(Exception):
    """Why there is no observer, and what would give one."""


def libraries(folder: str, torch: ModuleType, names: tuple[str, str]) -> str:
    """The folder that holds the libraries of these names: `folder`, or the user's cache, where they are built of `folder`/sources.

    The names are those of the observer and of what reads frames. Raises BuildError where they are in neither, and cannot be built.
    """
    observer, _ = names
    if _has(folder, names):
        return folder
    sources = os.path.join(folder, "sources")
    if not os.path.isdir(sources):
        if os.path.isfile(os.path.join(folder, observer)):
            return folder
        raise BuildError(f"the observer was not built for PyTorch {torch.__version__}")
    try:
        return _cached(sources, torch, names)
    except (BuildError, OSError) as error:
        # Modules and lines alone are missing.
        if os.path.isfile(os.path.join(folder, observer)):
            return folder
        raise BuildError(str(error)) from error


def _has(folder: str, names: tuple[str, str]) -> bool:
    """Whether a folder holds all that could be built."""
    observer, frames = (os.path.join(folder, name) for name in names)
    return os.path.isfile(observer) and (os.path.isfile(frames) or not _python_headers())


def _python_headers() -> str:
    """Where this Python's headers are; empty where they are not installed."""
    folder = sysconfig.get_paths()["include"]
    return folder if os.path.isfile(os.path.join(folder, "Python.h")) else ""


def _cached(sources: str, torch: ModuleType, names: tuple[str, str]) -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(base, "opprof", f"observer-{_hash_of(sources)}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.stat(folder).st_uid != os.geteuid():
        raise BuildError(f"{folder} is somebody else's: set XDG_CACHE_HOME to a folder of your own")
    # Of the processes of a program one builds, and the others wait for it.
    with _locked(os.path.join(folder, "lock")):
        if not _has(folder, names):
            build(sources, folder, torch, names)
    return folder


def _hash_of(sources: str) -> str:
    digest = hashlib.sha256()
    patterns = (*OBSERVER, *FRAMES, "lib/Torch/*.h", "include/opprof/*/*.h")
    for path in sorted(path for pattern in patterns for path in _files(sources, pattern)):
        digest.update(os.path.relpath(path, sources).encode() + b"\0")
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


def _files(sources: str, pattern: str) -> list[str]:
    return sorted(glob.glob(os.path.join(glob.escape(sources), pattern)))


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(sources: str, folder: str, torch: ModuleType, names: tuple[str, str]) -> None:
    """Builds both libraries into `folder`; raises BuildError."""
    known = list(filter(shutil.which, ("g++", "clang++", "c++")))
    compiler = shlex.split(os.environ.get("CXX", "")) or known[:1]
    if not compiler:
        raise BuildError(
            f"the observer was not built for PyTorch {torch.__version__}, and there is no C++ compiler to build it: install g++"
        )
    print(
        f"opprof: builds the observer for PyTorch {torch.__version__}, once: half a minute",
        file=sys.stderr,
    )
    observer, frames = (os.path.join(folder, name) for name in names)
    own = os.path.dirname(str(torch.__file__))
    options = [
        *(*compiler, "-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{sources}/include",
        *(f"-isystem{own}/include{part}" for part in ("", "/torch/csrc/api/include")),
        *shlex.split(os.environ.get("CXXFLAGS", "")),
    ]
    linked = [f"{own}/lib/libtorch_cpu.so", f"{own}/lib/libc10.so"]
    last = ["-Wl,-z,nodelete", "-Wl,--allow-shlib-undefined"]
    inputs = [path for pattern in OBSERVER for path in _files(sources, pattern)]
    _compile([*options, *inputs, *linked, *last], observer)
    if headers := _python_headers():
        inputs = [path for pattern in FRAMES for path in _files(sources, pattern)]
        beside = ["-Wl,-rpath,$ORIGIN", f"-isystem{headers}"]
        _compile([*options, *beside, *inputs, observer, *linked, *last], frames)


def _compile(command: list[str], output: str) -> None:
    """Runs the compiler without what a recorded program is given, and puts its output in place when it is whole."""
    made = f"{output}.{os.getpid()}"
    given = ("LD_PRELOAD", "PYTHONPATH", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
    environment = {key: value for key, value in os.environ.items() if key not in given}
    name = os.path.basename(output)
    try:
        done = subprocess.run(
            [*command, "-o", made],
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=_MOST_SECONDS,
        )
        if done.returncode:
            said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
            raise BuildError(f"{command[0]} could not build {name}: {said[-500:].strip()}")
        os.replace(made, output)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{command[0]} did not build {name} in {_MOST_SECONDS} s") from error
    except OSError as error:
        raise BuildError(f"{command[0]} could not build {name}: {error}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(made)

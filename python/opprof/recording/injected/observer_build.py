"""Finds the observer of the PyTorch and the Python that a program runs on, and builds it where there is none, once.

LibTorch promises no ABI across versions, so that no library fits all of them: a package holds the sources. Nothing of opprof can be
imported here, as in observing.
"""

import contextlib
import fcntl
import glob
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import time
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

#: A compiler that takes longer has met something else, and who waits for another process's goes on without.
_MOST_SECONDS = 300
#: So long a failure is believed, by the other processes of a program above all.
_FAILED_SECONDS = 600


class BuildError(Exception):
    """Why there is no observer, and what would give one."""


def libraries(folder: str, torch: ModuleType, names: tuple[str, str]) -> str:
    """The folder that holds the libraries of these names: `folder`, or the user's cache, where they are built of `folder`/sources.

    The names are those of the observer and of what reads frames, which is empty where nothing does. Raises BuildError where the
    observer is in neither, and cannot be built.
    """
    sources = os.path.join(folder, "sources")
    if _has(folder, names) or not os.path.isdir(sources):
        if os.path.isfile(os.path.join(folder, names[0])):
            return folder
        raise BuildError(f"the observer was not built for PyTorch {torch.__version__}")
    try:
        return _cached(sources, torch, names)
    except (BuildError, OSError) as error:
        # Modules and lines alone are missing.
        if os.path.isfile(os.path.join(folder, names[0])):
            return folder
        raise BuildError(str(error)) from error


def _parts(names: tuple[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What can be built for this Python: the names of libraries, each with its sources."""
    yield names[0], OBSERVER
    if names[1] and _python_headers():
        yield names[1], FRAMES


def _has(folder: str, names: tuple[str, str]) -> bool:
    """Whether a folder holds all that could be built."""
    return all(os.path.isfile(os.path.join(folder, name)) for name, _ in _parts(names))


def _python_headers() -> str:
    """Where this Python's headers are; empty where they are not installed."""
    folder = sysconfig.get_paths()["include"]
    return folder if os.path.isfile(os.path.join(folder, "internal", "pycore_frame.h")) else ""


def _cached(sources: str, torch: ModuleType, names: tuple[str, str]) -> str:
    folder = _cache(sources, torch)
    if _has(folder, names):
        return folder
    # Of the processes of a program one builds, and the others wait for it.
    with _locked(os.path.join(folder, f"{names[0]}.lock")):
        for name, patterns in _parts(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                continue
            try:
                _build_once(sources, path, patterns, torch, os.path.join(folder, names[0]))
            except BuildError as error:
                if patterns is OBSERVER:
                    raise
                # There are operators, and no modules and lines.
                _say(str(error))
    _check_own(folder)
    return folder


def _cache(sources: str, torch: ModuleType) -> str:
    """A folder of the user's own for what is built of these sources: what lies there is loaded."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        raise BuildError("there is no home folder to build the observer in: set XDG_CACHE_HOME")
    os.makedirs(base, exist_ok=True)
    kind = f"{platform.machine()}-{int(torch.compiled_with_cxx11_abi())}"
    folder = base
    for name in ("opprof", f"observer-{_hash_of(sources)}-{kind}"):
        folder = os.path.join(folder, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, mode=0o700)
        _check_own(folder)
    return folder


def _check_own(folder: str) -> None:
    status = os.lstat(folder)
    others = stat.S_IWGRP | stat.S_IWOTH
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & others:
        raise BuildError(
            f"others may write to {folder}, and what is built there is loaded: set XDG_CACHE_HOME to a folder of your own"
        )


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
    end = time.monotonic() + _MOST_SECONDS
    with open(path, "w", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise BuildError(
                        f"another process has held {path} for {_MOST_SECONDS} s"
                    ) from None
                time.sleep(0.1)
        yield


def _say(text: str) -> None:
    # Nobody may be reading, which is no reason to record nothing.
    with contextlib.suppress(OSError, ValueError):
        print(f"opprof: {text}", file=sys.stderr)


def _compiler(torch: ModuleType) -> list[str]:
    known = list(filter(shutil.which, ("g++", "clang++", "c++")))
    found = shlex.split(os.environ.get("CXX", "")) or known[:1]
    if not found:
        raise BuildError(
            f"the observer was not built for PyTorch {torch.__version__}, and there is no C++ compiler to build it: install g++"
        )
    return found


def _build_once(
    sources: str, path: str, patterns: tuple[str, ...], torch: ModuleType, observer: str
) -> None:
    """Builds one library, unless the same compiler could not a while ago."""
    compiler = _compiler(torch)
    marker = f"{path}.failed"
    with contextlib.suppress(OSError, ValueError):
        with open(marker, encoding="utf-8") as file:
            by, _, reason = file.read().partition("\n")
        if by == shlex.join(compiler) and time.time() - os.stat(marker).st_mtime < _FAILED_SECONDS:
            raise BuildError(reason)
    if patterns is OBSERVER:
        _say(f"builds the observer for PyTorch {torch.__version__}, once: half a minute")
    try:
        _build(compiler, sources, path, patterns, torch, observer)
    except BuildError as error:
        with open(marker, "w", encoding="utf-8") as file:
            file.write(f"{shlex.join(compiler)}\n{error}")
        raise


def build(sources: str, folder: str, torch: ModuleType, names: tuple[str, str]) -> None:
    """Builds both libraries into `folder`, whatever is there; raises BuildError."""
    observer = os.path.join(folder, names[0])
    for name, patterns in _parts(names):
        path = os.path.join(folder, name)
        _build(_compiler(torch), sources, path, patterns, torch, observer)


def _build(
    compiler: list[str],
    sources: str,
    path: str,
    patterns: tuple[str, ...],
    torch: ModuleType,
    observer: str,
) -> None:
    own = os.path.dirname(str(torch.__file__))
    command = [
        *(*compiler, "-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared"),
        *("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{sources}/include",
        *(f"-isystem{own}/include{part}" for part in ("", "/torch/csrc/api/include")),
    ]
    if patterns is FRAMES:
        command += ["-Wl,-rpath,$ORIGIN", f"-isystem{_python_headers()}"]
    command += [source for pattern in patterns for source in _files(sources, pattern)]
    if patterns is FRAMES:
        command.append(observer)
    command += [f"{own}/lib/libtorch_cpu.so", f"{own}/lib/libc10.so"]
    # The one names the other as it is called beside it.
    command += [f"-Wl,-soname,{os.path.basename(path)}"]
    _compile([*command, "-Wl,-z,nodelete", "-Wl,--allow-shlib-undefined"], path)


def _compile(command: list[str], output: str) -> None:
    """Runs the compiler without what a recorded program is given, and puts its output in place when it is whole."""
    made = f"{output}.{os.getpid()}"
    given = ("LD_PRELOAD", "PYTHONPATH", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
    environment = {key: value for key, value in os.environ.items() if key not in given}
    name = os.path.basename(output)
    try:
        done = subprocess.run(
            [*command, "-o", made],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
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

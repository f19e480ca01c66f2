"""The ids that launches get from the line that launches them, and what the interpreter calls to set them.

From Python 3.12 on these are builtins of the capture library, before that a trace function; the programs here run in each
interpreter that is there. They need no PyTorch and no GPU (unittests/Capture/FakeCupti.cpp).
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import interpreters

from opprof.recording.identity import line_starts

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("OPPROF_BUILD_DIR", ROOT / "build"))
FAKE = BUILD / "unittests" / "libopprof_fake_cupti.so"
LIBRARY = BUILD / "lib" / "libopprof_capture.so"
NEWER = [python for python in interpreters() if python != sys.executable]
if sys.version_info >= (3, 12):
    NEWER.insert(0, sys.executable)

PRELUDE = """
import ctypes, gc, json, os, sys, threading, types
from opprof.recording import identity
from opprof.recording.library import Library

library = Library.get()
fake = ctypes.CDLL(os.environ["OPPROF_CUPTI_LIBRARY"])

def launch(name="k"):
    fake.fake_launch(ctypes.c_char_p(name.encode()), ctypes.c_uint32(1), ctypes.c_uint32(1))

def wrapper(text):
    module = types.ModuleType("wrapper")
    with open("wrapper.py", "w") as file:
        file.write(text)
    exec(compile(text, "wrapper.py", "exec"), module.__dict__)
    module.launch = launch
    return module

def launched(run):
    # Names and lines of what a function launches.
    library.call("launches_begin")
    try:
        run()
    finally:
        library.call("launches_end", None)
    return [(entry["kernel"], entry["id"] & 0xFFFFF) for entry in library.launches()]

DISABLE = object()
def callbacks(*places):
    return library.python_callbacks([(*place, None) for place in places], DISABLE)
"""


def run(python: str, body: str, folder: Path) -> Any:
    """What a program printed last, as JSON."""
    if not FAKE.is_file() or not LIBRARY.is_file():
        pytest.skip(
            "the capture library is not built: cmake --build build --target opprof-test-depends"
        )
    done = subprocess.run(
        [python, "-X", "dev", "-c", PRELUDE + textwrap.dedent(body)],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "OPPROF_CAPTURE_LIBRARY": str(LIBRARY),
            "OPPROF_CUPTI_LIBRARY": str(FAKE),
            "OPPROF_CUDA_LIBRARY": str(FAKE),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().split("\n")[-1])


WRAPPER = """\
def call(args):
    launch("a"); launch("b")
    buf0 = 1
    for name in ("c", "d"):
        launch(name)
    launch(
        "e",
    )
    if buf0:
        buf1 = launch("f")
    else:
        launch("never")
    partition_0(args)
    launch("h")
    return buf0

def partition_0(args):
    with args:
        launch("g")
"""


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize("fast", [True, False])
def test_a_launch_has_the_id_of_its_line(python: str, fast: bool, tmp_path: Path) -> None:
    result = run(
        python,
        f"""
        import contextlib
        if not {fast}:
            library._python_callbacks = None
        module = wrapper({WRAPPER!r})
        lines = identity.WrapperLines(library, [module])
        def program():
            module.call(contextlib.nullcontext())
            launch("outside")
        with lines.active():
            first = launched(program)
            again = launched(program)
        after = launched(program)
        with lines.active():
            anew = launched(program)
        print(json.dumps([first, again, anew, after]))
        """,
        tmp_path,
    )
    lines = dict(zip("abcdefgh", (2, 2, 5, 5, 6, 10, 19, 14), strict=True))
    expected = [[name, line] for name, line in lines.items()] + [["outside", 0]]
    assert result[:3] == [expected] * 3
    assert result[3] == [[name, 0] for name, _ in expected]


@pytest.mark.parametrize("python", interpreters())
def test_a_long_function(python: str, tmp_path: Path) -> None:
    # More names and constants than fit into an instruction's argument, and more lines than the interpreter keeps a distance to.
    text = "def call(args):\n" + "".join(
        f"    # a comment\n    # another\n    buf{i} = launch_{i}({i}.5)\n    del buf{i}\n"
        for i in range(400)
    )
    result = run(
        python,
        f"""
        module = wrapper({text!r})
        for i in range(400):
            setattr(module, f"launch_{{i}}", lambda value: launch(str(int(value))))
        with identity.WrapperLines(library, [module]).active():
            print(json.dumps(launched(lambda: module.call(None))))
        """,
        tmp_path,
    )
    assert result == [[str(i), 4 + 4 * i] for i in range(400)]


@pytest.mark.parametrize("python", interpreters())
def test_an_exception_ends_the_id(python: str, tmp_path: Path) -> None:
    result = run(
        python,
        """
        module = wrapper("def call(args):\\n    launch('a')\\n    fail(args)\\n")
        def fail(args):
            launch("b")
            raise ValueError("the user's own")
        module.fail = fail
        said = []
        def program():
            try:
                module.call(1)
            except ValueError as error:
                said.append(str(error))
            launch("outside")
        with identity.WrapperLines(library, [module]).active():
            print(json.dumps([launched(program), said]))
        """,
        tmp_path,
    )
    assert result == [[["a", 2], ["b", 3], ["outside", 0]], ["the user's own"]]


@pytest.mark.parametrize("python", interpreters())
def test_each_thread_is_at_its_own_line(python: str, tmp_path: Path) -> None:
    result = run(
        python,
        """
        module = wrapper("def call(args):\\n" + "".join(f"    launch('{i}')\\n" for i in range(20)))
        def program():
            threads = [threading.Thread(target=lambda: [module.call(1) for _ in range(20)]) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        with identity.WrapperLines(library, [module]).active():
            print(json.dumps(launched(program)))
        """,
        tmp_path,
    )
    assert len(result) == 4 * 20 * 20
    assert all(int(name) + 2 == line for name, line in result)


@pytest.mark.parametrize("python", interpreters())
def test_the_callbacks_are_builtins_that_set_ids(python: str, tmp_path: Path) -> None:
    result = run(
        python,
        """
        def one(): pass
        def two(): pass
        code, other = one.__code__, two.__code__
        at, leave = callbacks((code, 10, 7), (code, 12, 8), (other, 10, 9))
        def program():
            told = []
            for where in ((code, 10), (code, 12), (other, 10), (other, 12), (DISABLE, 10), (code, -1), (code, 1 << 40)):
                told.append(at(*where) is DISABLE)
                launch()
            leave(DISABLE, 0, None); launch()
            leave(other, 0, None); launch()
            assert told == [False] * 3 + [True] * 4, told
        assert type(at) is type(leave) is types.BuiltinFunctionType
        print(json.dumps(launched(program)))
        """,
        tmp_path,
    )
    assert [line for _, line in result] == [7, 8, 9, 9, 9, 9, 9, 9, 0]


@pytest.mark.skipif(not NEWER, reason="no Python that has sys.monitoring")
@pytest.mark.parametrize("python", NEWER)
@pytest.mark.parametrize("tools", [0, 6])
def test_lines_are_followed_whatever_other_tools_do(
    python: str, tools: int, tmp_path: Path
) -> None:
    result = run(
        python,
        f"""
        module = wrapper("def call(args):\\n    launch('a')\\n    launch('b')\\n")
        def call():
            module.call(1)
        def profiled():
            sys.setprofile(lambda *event: None)
            call()
            sys.setprofile(None)
        def traced():
            sys.settrace(lambda *event: None)
            call()
            sys.settrace(None)
        def followed_twice():
            with identity.WrapperLines(library, [module]).active():
                call()
        def restarted():
            sys.monitoring.restart_events()
            call()
        others = [tool for tool in range(6) if tool not in (3, 4)][:{tools}]
        for tool in others:
            sys.monitoring.use_tool_id(tool, "another")
        result = []
        with identity.WrapperLines(library, [module]).active():
            for way in (call, profiled, call, traced, call, followed_twice, call, restarted, call):
                result.append([line for _, line in launched(way)])
        held = [tool for tool in range(6) if sys.monitoring.get_tool(tool) is not None]
        print(json.dumps([result, held == others]))
        """,
        tmp_path,
    )
    assert result == [[[2, 3]] * 9, True]


@pytest.mark.skipif(not NEWER, reason="no Python that has sys.monitoring")
@pytest.mark.parametrize("python", NEWER)
def test_a_capture_is_followed_by_builtins(python: str, tmp_path: Path) -> None:
    result = run(
        python,
        """
        module = wrapper("def call(args):\\n    launch('a')\\n")
        monitoring = sys.monitoring
        with identity.WrapperLines(library, [module]).active():
            tool = next(t for t in range(6) if monitoring.get_tool(t) == "opprof")
            callback = monitoring.register_callback(tool, monitoring.events.INSTRUCTION, None)
        print(json.dumps(type(callback).__name__))
        """,
        tmp_path,
    )
    assert result == "builtin_function_or_method"


@pytest.mark.parametrize("python", interpreters())
def test_the_callbacks_refuse_what_is_not_theirs(python: str, tmp_path: Path) -> None:
    result = run(
        python,
        """
        code = launch.__code__
        at, leave = callbacks((code, 10, 7))
        said = []
        for call in (
            lambda: at(), lambda: at(code), lambda: at(code, 10, 11), lambda: at(code, "10"), lambda: at(code, None),
            lambda: at(code, 1.5), lambda: at(code, 1 << 80), lambda: at(code, offset=10), lambda: leave(),
            lambda: leave(code, 10), lambda: leave(code, 10, None, None),
        ):
            try:
                said.append(str(call()))
            except (TypeError, OverflowError) as error:
                said.append(type(error).__name__)
        class Offset:
            def __index__(self):
                raise KeyError("its own")
        try:
            at(code, Offset())
        except KeyError:
            said.append("KeyError")
        print(json.dumps(said))
        """,
        tmp_path,
    )
    overflow = 6
    expected = ["TypeError"] * 11 + ["KeyError"]
    expected[overflow] = "OverflowError"
    assert result == expected


@pytest.mark.parametrize("python", interpreters())
def test_the_callbacks_hold_what_they_return_and_nothing_else(python: str, tmp_path: Path) -> None:
    result = run(
        python,
        """
        code = launch.__code__
        before = sys.getrefcount(DISABLE)
        at, leave = callbacks((code, 10, 7))
        held = sys.getrefcount(DISABLE) - before
        kept = [at(code, 11) for _ in range(100)]
        returned = sys.getrefcount(DISABLE) - before - held
        kept.clear()
        for _ in range(1000):
            at(code, 10), at(code, 12), leave(code, 0, None)
            try:
                at(code, None)
            except TypeError:
                pass
        alone = callbacks((code, 10, 7))[0]
        none = callbacks()
        several = sys.getrefcount(DISABLE) - before
        used = alone(code, 10) is None and none[0](code, 10) is DISABLE
        del at, leave, alone, none
        gc.collect()
        print(json.dumps([held, returned, several, used, sys.getrefcount(DISABLE) - before]))
        """,
        tmp_path,
    )
    assert result == [1, 100, 3, True, 0]


@pytest.mark.parametrize("python", interpreters())
def test_a_move_is_called_where_the_path_changes(python: str, tmp_path: Path) -> None:
    result = run(
        python,
        """
        code = launch.__code__
        path, other = ("a",), ("a", "b")
        log = []
        def move(path):
            if path == other and "raise" in log:
                raise ValueError("its own")
            log.append(path)
        before = sys.getrefcount(move), sys.getrefcount(path)
        places = [(code, 10, 1, path), (code, 12, 2, path), (code, 14, 3, other)]
        at, leave = library.python_callbacks(places, DISABLE, move, ())
        nested, left = library.python_callbacks([(code, 10, 4, other)], DISABLE, move, ())
        def work():
            for offset in (10, 12, 10, 14, 14):
                at(code, offset)
            nested(code, 10)
            left(code, 0, None)
            at(code, 14)
            leave(code, 0, None)
            leave(code, 0, None)
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        log.append("raise")
        for _ in range(2):
            try:
                at(code, 14)
            except ValueError as error:
                log.append(str(error))
        at(code, 10)
        seen = [entry if isinstance(entry, str) else list(entry) for entry in log]
        del at, leave, nested, left, places, log[:]
        gc.collect()
        print(json.dumps([seen, [sys.getrefcount(move) - before[0], sys.getrefcount(path) - before[1]]]))
        """,
        tmp_path,
    )
    once = [["a"], ["a", "b"], ["a", "b"], [], ["a", "b"], []]
    log, held = result
    assert log == [*once, *once, "raise", "its own", "its own", ["a"]]
    assert held == [0, 0]


FOLLOWED = """
def plain(x):
    a = x
    b = a + x
    c = b; d = c
    return (
        a
        + b,
        c,
        d,
    )

def branches(x):
    if x > 1:
        y = x
    elif x:
        y = plain(x)
    else:
        y = None
    while x:
        x = x - 1
        y = x
    try:
        if y is None:
            raise ValueError(x)
        with guard():
            y = [i for i in range(3)]
            y = x
    except ValueError as error:
        y = str(error)
    finally:
        x = y
    return x
"""


def line_events(event: str) -> str:
    """A program that prints the lines that functions get to, by one sort of sys.monitoring's events."""
    return f"""
        import contextlib
        scope = dict(guard=contextlib.nullcontext)
        exec(compile({FOLLOWED!r}, "followed.py", "exec"), scope)
        functions = [scope["plain"], scope["branches"]]
        starts = {{f.__code__: dict(identity.line_starts(f.__code__)) for f in functions}}
        firsts = {{f.__code__: f.__code__.co_firstlineno for f in functions}}
        monitoring = sys.monitoring
        event = monitoring.events.{event}
        told = []
        def on_line(code, line):
            told.append(line)
        def on_instruction(code, offset):
            line = starts[code].get(offset)
            if line is not None and line != firsts[code]:
                told.append(line)
        def work():
            for x in (0, 1, 5):
                scope["branches"](x)
        for _ in range(50):
            work()
        monitoring.use_tool_id(3, "test")
        monitoring.register_callback(3, event, on_line if event == monitoring.events.LINE else on_instruction)
        for f in functions:
            monitoring.set_local_events(3, f.__code__, event)
        work()
        print(json.dumps(told))
    """


@pytest.mark.skipif(not NEWER, reason="no Python that has sys.monitoring")
@pytest.mark.parametrize("python", NEWER)
def test_instructions_tell_of_the_lines_that_line_events_tell_of(
    python: str, tmp_path: Path
) -> None:
    by_line = run(python, line_events("LINE"), tmp_path)
    by_instruction = run(python, line_events("INSTRUCTION"), tmp_path)
    assert len(by_line) > 50
    assert by_instruction == by_line


def test_line_starts() -> None:
    def followed(x: int) -> int:
        y = x
        return y

    first = followed.__code__.co_firstlineno
    lines = [line - first for _, line in line_starts(followed.__code__)]
    offsets = [offset for offset, _ in line_starts(followed.__code__)]
    assert lines == [0, 1, 2]
    assert offsets == sorted(offsets)

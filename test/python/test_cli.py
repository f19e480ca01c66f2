"""The command line: errors that name the place and the remedy, and no PyTorch where none is needed."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import opprof
from opprof.commands.cli import main
from opprof.export.model_script import load_model_script


def fails(capsys: pytest.CaptureFixture[str], *arguments: str, program: bool = False) -> str:
    """What a command that fails prints; a traceback only where the user's `program` is what failed, and never opprof's frames."""
    status = main(arguments)
    assert status == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ("Traceback" in printed.err) == program
    assert str(Path(opprof.__file__).parent) not in printed.err
    return printed.err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for command in ("export", "launches", "profile", "report"):
        assert command in text


@pytest.mark.parametrize("option", ["--delay", "--duration"])
@pytest.mark.parametrize("value", ["-1", "inf", "nan", "soon"])
def test_a_recording_waits_for_seconds(
    option: str, value: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "-o", str(tmp_path / "run"), f"{option}={value}", "true"])
    assert f"argument {option}: '{value}' is no number of seconds" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_unknown_option_points_to_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["report", "run", "--jsno"])
    assert end.value.code == 2
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["export", "profile", "optimize"])
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("weights.pt", b"PK\x05\x06" + bytes(18), "a file of weights, without the program"),
        ("old.pth", b"\x80\x02.", "a file of weights, without the program"),
        ("model.safetensors", b"{}", "a file of weights, without the program"),
        ("model.pt2", b"PK", "a graph (`opprof profile --graph`"),
        ("model.onnx", b"\x08", "a model of ONNX, which opprof does not read"),
        ("notes.txt", b"hello", "neither a model script nor an archive of torch.jit.save"),
    ],
)
def test_other_files_are_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    name: str,
    content: bytes,
    says: str,
) -> None:
    (tmp_path / name).write_bytes(content)
    output = str(tmp_path / ("graph.mlir" if command == "export" else "out"))
    message = fails(capsys, command, str(tmp_path / name), "-o", output)
    assert f"{name}: is {says}" in message and "get_model_and_input()" in message


def test_missing_script(capsys: pytest.CaptureFixture[str]) -> None:
    message = fails(capsys, "export", "nowhere.py", "-o", "graph.json")
    assert "nowhere.py: no such file" in message
    assert "get_model_and_input" in message


def test_output_ending(capsys: pytest.CaptureFixture[str], examples: Path) -> None:
    message = fails(capsys, "export", str(examples / "gpt2.py"), "-o", "graph.onnx")
    assert "graph.onnx" in message and ".mlirbc" in message


def test_script_without_the_function(
    capsys: pytest.CaptureFixture[str], script: Any, tmp_path: Path
) -> None:
    path = script("x = 1\n")
    message = fails(capsys, "export", str(path), "-o", str(tmp_path / "g.json"))
    assert f"{path}: does not define get_model_and_input()" in message


def test_script_with_a_syntax_error(
    capsys: pytest.CaptureFixture[str], script: Any, tmp_path: Path
) -> None:
    path = script("def get_model_and_input(:\n    pass\n")
    message = fails(capsys, "export", str(path), "-o", str(tmp_path / "g.json"))
    assert f"{path}:4: could not be loaded: SyntaxError" in message


def test_script_that_raises(
    capsys: pytest.CaptureFixture[str], script: Any, tmp_path: Path
) -> None:
    path = script("def get_model_and_input():\n    return 1 / 0\n")
    arguments = ("export", str(path), "-o", str(tmp_path / "g.json"))
    message = fails(capsys, *arguments, program=True)
    assert f"{path}:5: get_model_and_input() failed: ZeroDivisionError" in message


def test_the_line_is_found_by_a_relative_path_too(
    capsys: pytest.CaptureFixture[str],
    script: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script("def get_model_and_input():\n    return 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    message = fails(capsys, "export", "model_under_test.py", "-o", "g.json", program=True)
    assert "error: model_under_test.py:5: get_model_and_input() failed" in message


def test_a_script_sees_its_own_command_line(
    capsys: pytest.CaptureFixture[str], script: Any, tmp_path: Path
) -> None:
    path = script("import sys\nraise ValueError(sys.argv)\n")
    arguments = ("export", str(path), "-o", str(tmp_path / "g.json"))
    assert f"ValueError: ['{path}']" in fails(capsys, *arguments, program=True)


def test_a_script_that_ends_the_process_is_named(
    capsys: pytest.CaptureFixture[str], script: Any, tmp_path: Path
) -> None:
    path = script("import sys\nsys.exit(7)\n")
    with pytest.raises(SystemExit) as end:
        main(["export", str(path), "-o", str(tmp_path / "g.json")])
    assert end.value.code == 7
    assert f"{path} ended the process itself" in capsys.readouterr().err


def test_a_module_that_the_script_compiled_is_unwrapped(
    capsys: pytest.CaptureFixture[str], script: Any
) -> None:
    path = script(
        """
        def get_model_and_input():
            return torch.compile(torch.nn.Linear(2, 2)), torch.ones(1, 2)
        """
    )
    assert type(load_model_script(path).module) is torch.nn.Linear
    assert "compiles its module itself" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make_step", "said"),
    [("make_step = 5", "make_step is a int"), ("def make_step(m): return 5", "returned a int")],
)
def test_a_step_that_is_no_function(
    capsys: pytest.CaptureFixture[str], script: Any, tmp_path: Path, make_step: str, said: str
) -> None:
    path = script(
        f"def get_model_and_input(): return torch.nn.ReLU(), torch.ones(1)\n{make_step}\n"
    )
    assert said in fails(capsys, "profile", str(path), "-o", str(tmp_path / "run"))


@pytest.mark.parametrize("returned", ["3", "(torch.nn.Linear(1, 1),)", "('model', torch.ones(1))"])
def test_script_that_returns_something_else(
    capsys: pytest.CaptureFixture[str], script: Any, tmp_path: Path, returned: str
) -> None:
    path = script(f"def get_model_and_input():\n    return {returned}\n")
    message = fails(capsys, "export", str(path), "-o", str(tmp_path / "g.json"))
    assert "get_model_and_input() returned" in message


def test_a_model_that_does_not_export_names_the_line(
    capsys: pytest.CaptureFixture[str], script: Any, tmp_path: Path
) -> None:
    path = script(
        """
        class Branch(torch.nn.Module):
            def forward(self, x):
                if x.sum() > 0:
                    return x
                return -x


        def get_model_and_input():
            return Branch(), torch.ones(3)
        """
    )
    message = fails(capsys, "export", str(path), "-o", str(tmp_path / "g.json"))
    assert "does not export" in message
    assert f"{path.name}:7" in message
    assert not (tmp_path / "g.json").exists()


def test_no_backward_without_gradients(
    capsys: pytest.CaptureFixture[str], script: Any, tmp_path: Path
) -> None:
    path = script(
        """
        def get_model_and_input():
            return torch.nn.ReLU(), torch.ones(3)
        """
    )
    arguments = ("export", str(path), "-o", str(tmp_path / "g.json"), "--stage", "aot_backward")
    assert "there is no aot_backward graph" in fails(capsys, *arguments)


def test_profile_of_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    message = fails(capsys, "profile", "-o", str(tmp_path / "run"), "--graph", "g.pt2")
    assert "--code" in message and "--trace" in message


def test_profile_of_missing_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--graph", "g.pt2", "--code", "debug", "--trace", "t.json"]
    message = fails(capsys, "profile", "-o", str(tmp_path / "run"), *arguments)
    assert "g.pt2: no such file or folder" in message
    assert not (tmp_path / "run").exists()


def test_profile_into_a_file_is_refused_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "run"
    output.write_text("")
    assert f"{output} is a file" in fails(capsys, "profile", "nowhere.py", "-o", str(output))


def test_a_closed_pipe_and_a_full_disk_end_a_page_quietly(tmp_path: Path) -> None:
    code = "import sys; from opprof.commands import cli; cli._report = lambda options: print('line' * 1000000)\n"
    code += "sys.exit(cli.main(['report', 'run']))"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 1
    assert result.stderr.startswith("opprof: error: ") and "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["completion", "bash"], ["explain", "occupancy"]]
)
def test_what_only_prints_takes_a_full_disk_and_closed_streams(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "opprof", *arguments]
    for unbuffered in ("", "1"):
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                command,
                stdout=full,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
                text=True,
                check=False,
            )
        assert result.returncode == 1
        assert re.fullmatch(r"opprof: error: .*: No space left on device\n", result.stderr)
    for closed in (">&-", "<&- >&-"):
        shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *command]
        result = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False)
        assert (result.returncode, result.stderr) == (0, "")


def test_launches_of_a_folder_without_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "holds no output_code.py" in fails(capsys, "launches", str(tmp_path))
    missing = fails(capsys, "launches", str(tmp_path / "nowhere"))
    assert "nowhere: no such file or folder" in missing


def test_report_of_no_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "profile.opprof.json: no such file" in fails(capsys, "report", str(tmp_path))


def test_recommend_names_what_is_no_graph(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    binary = tmp_path / "trace.json.gz"
    binary.write_bytes(bytes(range(256)) * 4)
    arguments = ("-o", str(tmp_path / "rewrites"))
    message = fails(capsys, "recommend", str(binary), *arguments)
    assert "trace.json.gz: not a graph in MLIR" in message
    message = fails(capsys, "recommend", str(binary.rename(tmp_path / "g.mlir")), *arguments)
    assert "g.mlir:1:2: error: unexpected character" in message
    assert all(c.isprintable() or c == "\n" for c in message)


def test_folders_may_have_blanks_in_their_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, examples: Path
) -> None:
    graph = tmp_path / "my graphs" / "graph.mlir"
    graph.parent.mkdir()
    shutil.copyfile(examples.parent / "test" / "Rewrite" / "region-strategies.mlir", graph)
    output = tmp_path / "my rewrites, all"
    assert main(["recommend", str(graph), "-o", str(output)]) == 0
    assert (output / "rewrites.json").is_file()
    assert main(["emit", str(output), "-o", str(tmp_path / "backend.py")]) == 0
    capsys.readouterr()
    nothing = fails(capsys, "emit", str(graph.parent.parent), "-o", str(tmp_path / "none.py"))
    assert "holds no rewrites" in nothing


def test_training_without_a_step_is_not_profiled_to_be_optimized(
    capfd: pytest.CaptureFixture[str], script: Any, tmp_path: Path
) -> None:
    path = script("def get_model_and_input(): return torch.nn.ReLU().train(), torch.ones(1)\n")
    message = fails(capfd, "optimize", str(path), "-o", str(tmp_path / "out"))
    assert "in training mode" in message and "make_step(module)" in message
    # The process that profiles says what it does on the same stderr, or has been ended before it does.
    assert "timing" not in message
    assert not (tmp_path / "out").exists()


def test_what_fails_in_the_process_that_profiles_is_shown_as_in_this_one(
    capfd: pytest.CaptureFixture[str], script: Any, tmp_path: Path
) -> None:
    path = script("""
        import os

        class Fails(torch.nn.Module):
            def forward(self, x):
                if os.environ.get("MODEL_DIES"):
                    os.kill(os.getpid(), 9)
                raise ValueError("the model's own")


        def get_model_and_input():
            return Fails().eval(), torch.ones(1)
    """)
    arguments = ("optimize", str(path), "-o", str(tmp_path / "out"))
    message = fails(capfd, *arguments, program=True)
    assert "ValueError: the model's own" in message and "RemoteTraceback" not in message
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODEL_DIES", "1")
        assert "was ended from outside" in fails(capfd, *arguments)


def test_a_model_that_cannot_be_compiled_can_be_profiled_uncompiled(
    capsys: pytest.CaptureFixture[str], script: Any, tmp_path: Path
) -> None:
    path = script(
        "def get_model_and_input(): return torch.nn.ReLU().eval(), torch.ones(1)\n", "relu.py"
    )
    backend = tmp_path / "refuses.py"
    backend.write_text(
        "from torch._dynamo import register_backend\n"
        "BACKEND_NAME = 'refuses'\n"
        "@register_backend(name=BACKEND_NAME)\n"
        "def refuses(module, inputs): raise NotImplementedError('not this one')\n"
    )
    # PyTorch's frames lead through the hook that keeps graphs, so opprof's are among them here.
    assert main(
        ["profile", str(path), "-o", str(tmp_path / "run"), f"--mode={backend}", "--no-eager"]
    )
    message = capsys.readouterr().err
    assert "not this one" in message
    assert "--mode=eager profiles it uncompiled" in message


def test_a_missing_tool_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profile.opprof.json").write_text("{}")
    monkeypatch.delenv("OPPROF_TOOLS_DIR", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    message = fails(capsys, "report", str(tmp_path))
    assert "opprof-driver was not found" in message and "OPPROF_TOOLS_DIR" in message


def test_reading_needs_no_pytorch() -> None:
    """The modules of the commands that read files import neither PyTorch nor NumPy."""
    code = (
        "import sys, opprof.commands.cli, opprof.commands.launches, opprof.commands.report, opprof.chain\n"
        "print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"

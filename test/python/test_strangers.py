"""Files of strangers and any machine: links out of a run folder, escapes, two runs at once, no PyTorch, ASCII, narrow terminals."""

import ast
import contextlib
import gzip
import json
import os
import re
import resource
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opprof import processes
from opprof.backend.emit import emit
from opprof.backend.rewrites import read_rewrites
from opprof.commands import cli
from opprof.errors import OpprofError
from opprof.files import locked, read_json
from opprof.terminal import printable
from opprof.tools import find_tool

ROOT = Path(__file__).parents[2]

#: An escape that names the window, one of Latin-1's, and one that turns the direction of writing.
HOSTILE = "\x1b]0;owned\x07 \x9b31m ‮evil"

#: What a terminal is not given of a file.
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def opprof(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command, as a shell starts it."""
    code = "import sys; from opprof.commands.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
    )


def write_profile(folder: Path, name: str = "kernel") -> Path:
    """A profile of one kernel, whose every name is `name`."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "version": 1,
        "sources": [{"kind": "kineto", "file": name}],
        "graph": name,
        "stage": "export",
        "devices": [{"id": 0, "name": name, "sm_count": 132}],
        "summary": {"kernels": 1, "kernel_time_ns": 1000, "busy_ns": 1000, "wall_ns": 2000},
        "kernels": [
            {
                "id": 0,
                "name": name,
                "device": 0,
                "stream": 7,
                "start_ns": 0,
                "duration_ns": 1000,
                "phase": "steady",
                "nodes": [],
                "method": "none",
                "confidence": "unattributed",
            }
        ],
        "nodes": [],
        "findings": [],
        "notes": [name],
    }
    file = folder / "profile.opprof.json"
    file.write_text(json.dumps(document))
    return file


def test_no_name_of_a_file_commands_the_terminal(tmp_path: Path) -> None:
    write_profile(tmp_path, HOSTILE)
    said = opprof("report", tmp_path)
    assert said.returncode == 0, said.stderr
    assert "owned" in said.stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f‎‏‪-‮]", said.stdout + said.stderr)
    page = opprof("report", tmp_path, "--html", "-")
    assert "owned" in page.stdout
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page.stdout)
    # An error quotes what it is about.
    missing = opprof("report", tmp_path / HOSTILE)
    assert missing.returncode == 1 and "\x1b" not in missing.stderr


def test_json_on_a_terminal_is_escaped(tmp_path: Path) -> None:
    name = HOSTILE + " \x7f\u2066 Größe \U0001f600"
    write_profile(tmp_path, name)
    said = opprof("report", tmp_path, "--json")
    assert not CONTROLS.search(said.stdout)
    assert "Größe \U0001f600" in said.stdout
    assert json.loads(said.stdout)["kernels"][0]["name"] == name
    other = opprof("diff", tmp_path, tmp_path, "--format=json")
    assert other.returncode == 0 and not CONTROLS.search(other.stdout)


def test_what_is_no_file_is_refused_or_read_to_its_end(tmp_path: Path) -> None:
    """Devices have no end, and nobody may write into a pipe; one that somebody writes into is read."""
    profile = write_profile(tmp_path / "run")
    device = tmp_path / "device.json"
    device.symlink_to("/dev/urandom")
    for line in (
        f"report {device}",
        f"top {device}",
        f"explain small-kernels {device}",
        f"recommend {device} -o {tmp_path / 'out'}",
    ):
        said = opprof(*line.split())
        assert said.returncode == 1, line
        assert re.search("is (a device, and )?no file", said.stderr), said
    translated = subprocess.run(
        [find_tool("opprof-translate"), "--report-text", device],
        capture_output=True,
        text=True,
        check=False,
    )
    assert translated.returncode == 1 and "is a device, and no file" in translated.stderr
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Somebody who begins later than the reader, who says that they are waited for.
    writer = subprocess.Popen(["sh", "-c", 'sleep 6; cat "$0" >"$1"', str(profile), str(pipe)])
    said = opprof("report", pipe)
    assert said.returncode == 0
    assert said.stderr.count(f"nobody writes into the pipe {pipe} yet") == 1
    assert writer.wait() == 0
    unnamed = subprocess.run(
        ["bash", "-c", f"{find_tool('opprof-driver')} report <(cat {profile})"], check=False
    )
    assert unnamed.returncode == 0
    os.rename(pipe, tmp_path / "rewrites.json")
    with pytest.raises(OpprofError, match="it is a pipe, and no file"):
        read_json(tmp_path / "rewrites.json")


def test_what_is_no_rewrite_script_is_told_as_such(tmp_path: Path) -> None:
    script = tmp_path / "backend.py"
    script.write_text("import torch\n")
    said = opprof("emit", script, "-o", tmp_path / "out.py")
    assert said.returncode == 1
    assert "backend.py: is no rewrite script, whose name ends in .mlir" in said.stderr
    graph = tmp_path / "graph.mlir"
    graph.write_text(
        'fx.graph @g(%x: tensor<4xf32> {fx.name = "x"}) -> tensor<4xf32> { fx.output(%x) : (tensor<4xf32>) }'
    )
    said = opprof("recommend", graph, "--rules", script, "-o", tmp_path / "out")
    assert said.returncode == 1
    assert "backend.py: is no rewrite script, whose name ends in .mlir" in said.stderr


def test_printable_keeps_text() -> None:
    assert printable("Größe 1.0 µs\n\t… 模型") == "Größe 1.0 µs\n\t… 模型"
    assert printable(HOSTILE) == " ]0;owned   31m  evil"


@pytest.mark.parametrize("command", ["report", "report --json", "launches", "recommend -o out"])
def test_a_link_out_of_a_run_folder_is_refused(tmp_path: Path, command: str) -> None:
    secret = write_profile(tmp_path / "elsewhere", "secret")
    run = tmp_path / "run"
    run.mkdir()
    (run / "profile.opprof.json").symlink_to(secret)
    name, *options = command.split()
    options = [str(tmp_path / "out") if option == "out" else option for option in options]
    said = opprof(name, run, *options)
    assert said.returncode == 1
    assert "profile.opprof.json: is a link out of the run folder" in said.stderr
    assert "secret" not in said.stdout


def test_a_link_inside_a_run_folder_is_followed(tmp_path: Path) -> None:
    kept = write_profile(tmp_path)
    kept.rename(tmp_path / "first.json")
    kept.symlink_to("first.json")
    assert opprof("report", tmp_path).returncode == 0


def test_a_pipe_in_the_place_of_code_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "graph").mkdir()
    os.mkfifo(tmp_path / "graph" / "output_code.py")
    command = [sys.executable, "-m", "opprof", "launches", str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 1
    assert "output_code.py: is no file" in said.stderr


STRANGE: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to(os.devnull),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_file_is_not_replaced_by_a_run(tmp_path: Path, kind: str) -> None:
    """Wherever one of a run's files would be written: a pipe would be waited for, an empty folder and a link be gone."""
    recorded = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
    trace = ROOT / "test" / "Profile" / "Inputs" / "mlp_activations.trace.json.gz"
    code = tmp_path / "code"
    shutil.copytree(recorded, code)
    files = ["--graph", recorded / "export.json", "--code", code, "--trace", trace]
    for name in ("report.txt", "run.json", "trace.json.gz", "rewrites.json", "program.mlirbc"):
        place = tmp_path / name / name
        place.parent.mkdir()
        STRANGE[kind](place)
        said = opprof("profile", *files, "-o", place.parent)
        assert said.returncode == 1, name
        assert f"{place}: is {kind}, where opprof would write" in said.stderr, said.stderr
        assert list(place.parent.iterdir()) == [place]
    for name in ("output_code.py", "launches.json", "fx_graph_transformed.py"):
        place = tmp_path / f"in-{name}" / "code" / name
        place.parent.mkdir(parents=True)
        STRANGE[kind](place)
        said = opprof("profile", *files, "-o", place.parent.parent)
        assert said.returncode == 1, name
        assert f"{place}: is {kind}, where opprof would write" in said.stderr, said.stderr
        assert list(place.parent.iterdir()) == [place]


def test_a_pipe_among_what_is_recommended_is_told(tmp_path: Path) -> None:
    graph, out = tmp_path / "graph.mlir", tmp_path / "out"
    graph.write_text(
        'fx.graph @g(%x: tensor<4xf32> {fx.name = "x"}) -> tensor<4xf32> { fx.output(%x) : (tensor<4xf32>) }'
    )
    out.mkdir()
    os.mkfifo(out / "rewrites.json")
    said = opprof("recommend", graph, "-o", out)
    assert said.returncode == 1
    assert f"{out}/rewrites.json: is a pipe, where opprof would write" in said.stderr


def test_what_is_somebody_elses_among_rewrites_is_not_replaced(tmp_path: Path) -> None:
    """Neither the index of another program nor a file by the name of one of our scripts."""
    graph = ROOT / "test" / "Rewrite" / "shared-input-gemms.mlir"
    assert opprof("recommend", graph, "-o", tmp_path / "own").returncode == 0
    script = next((tmp_path / "own").glob("01-*.mlir")).name
    notes = {"rewrites.json": '{"chapters": [{"file": "notes.mlir"}]}', script: "// notes"}
    for name, text in notes.items():
        out = tmp_path / f"of-{name}"
        out.mkdir()
        (out / name).write_text(text)
        said = opprof("recommend", graph, "-o", out)
        assert said.returncode == 1
        assert f"{out / name}: is none of opprof's files, and would be lost" in said.stderr
        assert [file.read_text() for file in out.iterdir()] == [text]
    # An index may have our key, and one of ours may name what somebody has put there since.
    for index, refused in (
        ('{"rewrites": [{"file": "notes.mlir"}]}', "rewrites.json"),
        ('{"error_budget": 0.001, "rewrites": [{"file": "notes.mlir"}]}', "notes.mlir"),
    ):
        out = tmp_path / f"names-{refused}"
        out.mkdir()
        (out / "rewrites.json").write_text(index)
        (out / "notes.mlir").write_text("// notes")
        said = opprof("recommend", graph, "-o", out)
        assert said.returncode == 1
        assert f"{out / refused}: is none of opprof's files, and would be lost" in said.stderr
        assert (out / "rewrites.json").read_text() == index
        assert (out / "notes.mlir").read_text() == "// notes"
    # What a killed run left without an index is ours.
    (tmp_path / "own" / "rewrites.json").unlink()
    assert opprof("recommend", graph, "-o", tmp_path / "own").returncode == 0


@pytest.mark.parametrize("target", ["nowhere", "report.html"])
def test_a_link_that_leads_nowhere_gives_way(tmp_path: Path, target: str) -> None:
    """As every link does in a result's place; what it leads to is not made."""
    write_profile(tmp_path / "run")
    page = tmp_path / "report.html"
    page.symlink_to(target)
    said = opprof("report", tmp_path / "run", "--html", page)
    assert said.returncode == 0, said.stderr
    assert page.is_file() and not page.is_symlink() and not (tmp_path / "nowhere").exists()


def test_a_link_to_another_file_gives_way(tmp_path: Path) -> None:
    write_profile(tmp_path / "run")
    other, page = tmp_path / "other.html", tmp_path / "report.html"
    other.write_text("somebody's")
    page.symlink_to(other)
    assert opprof("report", tmp_path / "run", "--html", page).returncode == 0
    assert not page.is_symlink() and other.read_text() == "somebody's"


@pytest.mark.parametrize("command", ["report", "launches", "recommend -o out"])
def test_what_is_no_file_in_a_run_folder_is_told(tmp_path: Path, command: str) -> None:
    name, *options = command.split()
    options = [str(tmp_path / "out") if option == "out" else option for option in options]
    for number, file in enumerate(("profile.opprof.json", "rewrites.json")):
        run = tmp_path / str(number)
        write_profile(run)
        (run / file).unlink(missing_ok=True)
        os.mkfifo(run / file)
        said = opprof(name, run, *options)
        assert said.returncode == 1
        assert f"{file}: is a pipe, and no file" in said.stderr


@pytest.mark.parametrize("place", ["rewrites/own.mlir", "model.py"])
def test_a_link_to_itself_is_told(tmp_path: Path, place: str) -> None:
    rewrites = tmp_path / "rewrites"
    rewrites.mkdir()
    (rewrites / "rewrites.json").write_text('{"rewrites": []}')
    link = tmp_path / place
    link.symlink_to(link.name)
    said = opprof("emit", rewrites, "--model", tmp_path / "model.py", "-o", tmp_path / "out.py")
    assert said.returncode == 1
    assert said.stderr == f"opprof: error: {link}: is a link that leads to itself\n"


@pytest.mark.parametrize("line", ["validate X", "export X -o g.mlir", "profile X -o run"])
def test_a_file_that_is_larger_than_any_source_is_not_read(tmp_path: Path, line: str) -> None:
    file = tmp_path / "huge.py"
    with file.open("wb") as huge:
        huge.truncate(1 << 40)
    said = opprof(*line.replace("X", str(file)).split())
    assert said.returncode == 1
    assert said.stderr == f"opprof: error: {file}: is no Python file: it is of {1 << 40} bytes\n"


def test_an_archive_is_no_source_however_large(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    torch = pytest.importorskip("torch")
    torch.jit.script(torch.nn.Linear(4096, 4200)).save(file)
    assert file.stat().st_size > 64 << 20
    said = opprof("profile", file, "--input", "1x7xf32", "-o", tmp_path / "run")
    assert "is no Python file" not in said.stderr and "model.pt" in said.stderr


def test_a_pipe_among_rewrites_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own.mlir")
    for given in (tmp_path, tmp_path / "own.mlir"):
        said = opprof("emit", given, "-o", tmp_path / "out.py")
        assert said.returncode == 1
        assert "own.mlir: cannot be read: it is a pipe, and no file" in said.stderr


def test_json_is_read_within_its_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "other.json").write_text("{}")
    link = tmp_path / "run" / "run.json"
    link.symlink_to(tmp_path / "other.json")
    assert read_json(link) == {}
    with pytest.raises(OpprofError, match="link out of the run folder"):
        read_json(link, within=tmp_path / "run")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("script", 5),
        ("script", ["a.py"]),
        ("file", "x" * 5000),
        ("file", "ä" * 200),
        ("file", "a\0b.mlir"),
        ("name", "a\0b"),
        ("name", "half \ud800"),
        ("saves_ns", "9"),
        ("saves_ns", True),
        ("count", "many"),
        ("count", float("inf")),
    ],
)
def test_an_index_of_rewrites_that_is_none_is_told_in_one_line(
    tmp_path: Path, key: str, value: Any
) -> None:
    script = {"file": "01-a.mlir", "name": "a", "saves_ns": 1}
    declined = {"rule": "a", "reason": "b", "count": 1}
    index = {"script": "a.py", "rewrites": [script], "declined": [declined]}
    (tmp_path / "01-a.mlir").touch()
    for part in (index, script, declined):
        if key in part:
            part[key] = value
    (tmp_path / "rewrites.json").write_text(json.dumps(index))
    with pytest.raises(OpprofError, match=r"rewrites.json: not an index of rewrites: .{,600}$"):
        read_rewrites(tmp_path)


def test_a_process_may_be_called_anything() -> None:
    """Whose process any is on the machine, its name is no text that has to be read."""
    name = Path("/proc/self/comm")
    before = name.read_bytes().strip()
    try:
        name.write_bytes(b"\xff) 1 (\xfe")
        assert dict(processes._parents())[os.getpid()] == os.getppid()
    finally:
        name.write_bytes(before)


def test_two_runs_into_one_folder_are_refused(tmp_path: Path, script: Callable[..., Path]) -> None:
    run = tmp_path / "run"
    program = tmp_path / "slow.py"
    program.write_text("import time; time.sleep(1)\n")
    with locked(run):
        said = opprof("run", "-o", run, program)
    assert said.returncode == 1
    assert "another opprof command is filling this folder" in said.stderr
    # A folder that nothing came of is not left behind.
    assert not run.exists()


@pytest.mark.parametrize(
    "name",
    [
        "report.html",
        "report.txt",
        "run.json",
        "graph.json",
        "trace.json.gz",
        "graph.mlirbc",
        "counters.json",
    ],
)
def test_what_is_somebody_elses_is_not_replaced(tmp_path: Path, name: str) -> None:
    program = tmp_path / "program.py"
    program.write_text("")
    run = tmp_path / "run"
    run.mkdir()
    (run / name).write_text("months of somebody's work")
    said = opprof("run", "-o", run, program)
    assert said.returncode == 1
    assert f"{name}: is none of opprof's files, and would be lost" in said.stderr
    assert (run / name).read_text() == "months of somebody's work"


@pytest.mark.parametrize(
    "name",
    [
        "model_optimized.py",
        "model_optimized_test.py",
        "optimize.json",
        "precision-by-region.mlir",
        "report.txt",
    ],
)
def test_what_is_somebody_elses_where_optimize_writes_is_not_replaced(
    tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("months of somebody's work")
    # Nothing is run before.
    (tmp_path / "model.py").write_text("raise SystemExit('ran')")
    said = opprof("optimize", tmp_path / "model.py", "-o", out)
    assert said.returncode == 1
    assert f"{out / name}: is none of opprof's files, and would be lost" in said.stderr
    assert [file.read_text() for file in out.iterdir()] == ["months of somebody's work"]


@pytest.mark.parametrize("line", ["report --html", "report --perfetto", "merge -o"])
def test_a_recording_in_the_place_of_a_report_is_not_replaced(tmp_path: Path, line: str) -> None:
    """Whoever forgets the name behind the option gives it the first recording."""
    inputs = ROOT / "test" / "Profile" / "Inputs"
    capture = gzip.decompress((inputs / "conv_block.opcap.gz").read_bytes())
    trace = (inputs / "conv_block.trace.json.gz").read_bytes()
    kind, recording = ("opcap", capture) if line.startswith("merge") else ("json.gz", trace)
    first, second = tmp_path / f"0.{kind}", tmp_path / f"1.{kind}"
    for file in (first, second):
        file.write_bytes(recording)
    said = opprof(*line.split(), first, second)
    assert said.returncode == 1
    assert f"{first}: is none of opprof's files, and would be lost\n" in said.stderr
    assert first.read_bytes() == recording
    # What it wrote it writes again, packed or not.
    for name in ("out.json", "out.json.gz"):
        for _ in range(2):
            said = opprof(*line.split(), tmp_path / name, second)
            assert said.returncode == 0, said.stderr


@pytest.mark.parametrize(
    "line", ["report|", "report|run|--html|", "top|", "diff|a|", "launches|", "recommend|run|-o|"]
)
def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, line: str) -> None:
    """An unset variable of a shell is no wish to read or fill the folder that one is in."""
    said = opprof(*line.split("|"), cwd=tmp_path)
    assert said.returncode == 2 and "the name is empty" in said.stderr
    assert not list(tmp_path.iterdir())


def test_a_test_of_somebody_elses_is_not_replaced(tmp_path: Path) -> None:
    emit([], tmp_path / "backend.py")
    emit([], tmp_path / "backend.py")
    own = tmp_path / "model_test.py"
    own.write_text("def test_my_model(): ...\n")
    with pytest.raises(OpprofError, match="none of opprof's files") as refused:
        emit([], tmp_path / "model.py")
    assert "another name" in str(refused.value.remedy)
    assert own.read_text() == "def test_my_model(): ...\n"
    assert not (tmp_path / "model.py").exists()
    # Nor one that somebody made of ours, with lines of their own before it.
    kept = "# mine\n" + (tmp_path / "backend_test.py").read_text()
    (tmp_path / "backend_test.py").write_text(kept)
    with pytest.raises(OpprofError, match="none of opprof's files"):
        emit([], tmp_path / "backend.py")
    assert (tmp_path / "backend_test.py").read_text() == kept


def test_a_killed_run_holds_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code = (
        "import sys, time; from pathlib import Path; from opprof.files import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    with pytest.raises(OpprofError), locked(run):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    (run / ".report.html.k3j2h1").write_text("half a report")
    with locked(run):
        pass


def test_a_killed_tool_leaves_nothing_half_written(tmp_path: Path) -> None:
    graph, target = tmp_path / "graph.mlir", tmp_path / "out.mlir"
    graph.write_text("".join(f"module @m{i} {{}}\n" for i in range(20_000)))
    for tool, *options in (("opprof-opt",), ("opprof-translate", "--emit-python")):
        command = [find_tool(tool), *options, str(graph), "-o", str(target)]
        begun = time.monotonic()
        whole = subprocess.run(command, capture_output=True, check=False)
        takes = time.monotonic() - begun
        result = target.read_bytes() if whole.returncode == 0 else None
        for moment in range(8):
            target.unlink(missing_ok=True)
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(takes * (moment + 1) / 9)
            process.kill()
            process.wait()
            assert not target.exists() or target.read_bytes() == result
        # What a killed one left beside the output is in nobody's way.
        assert subprocess.run(command, capture_output=True, check=False).returncode == (
            whole.returncode
        )


def test_what_a_killed_command_began_ends_with_it(tmp_path: Path) -> None:
    inputs = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
    # Nobody writes to it: whoever reads it waits.
    trace = tmp_path / "trace.json"
    os.mkfifo(trace)
    arguments = ["profile", "--graph", inputs / "export.json", "--code", inputs, "--trace", trace]
    command = [sys.executable, "-m", "opprof", *map(str, arguments), "-o", str(tmp_path / "run")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    # Its progress comes from opprof-driver.
    process.stderr.readline()
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    descriptor = os.pidfd_open(int(child))
    process.kill()
    process.wait()
    process.stderr.close()
    ended, _, _ = select.select([descriptor], [], [], 30)
    os.close(descriptor)
    assert ended


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("line", ["opprof-opt", "opprof-translate --emit-python"])
def test_tools_end_with_the_command_that_is_killed(line: str, kind: signal.Signals) -> None:
    code = "import sys\nfrom opprof.tools import run_tool\nrun_tool(sys.argv[1], sys.argv[2:])"
    # They read what nobody writes.
    process = subprocess.Popen([sys.executable, "-c", code, *line.split()], stdin=subprocess.PIPE)
    assert process.stdin is not None
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (found := children.read_text().split()):
        assert process.poll() is None
        time.sleep(0.01)
    descriptor = os.pidfd_open(int(found[0]))
    process.send_signal(kind)
    process.wait()
    ended, _, _ = select.select([descriptor], [], [], 10)
    process.stdin.close()
    os.close(descriptor)
    assert ended


def test_ctrl_c_at_the_very_beginning_and_end_says_so(tmp_path: Path) -> None:
    """What is loaded by then has no place that a user could mend."""
    # Before the command line is read, and after the command has ended.
    interrupted = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    for name, code in (
        ("argparse.py", interrupted),
        ("opprof_at_exit.py", f"import atexit\natexit.register(lambda: exec({interrupted!r}))\n"),
    ):
        folder = tmp_path / name.removesuffix(".py")
        folder.mkdir()
        (folder / name).write_text(code)
        start = f"import runpy, sys\nsys.path.insert(0, {str(folder)!r})\n" + (
            "import opprof_at_exit\n" if "exit" in name else ""
        )
        process = subprocess.run(
            [
                *(sys.executable, "-c"),
                f"{start}sys.argv[1:] = ['completion', 'bash']\n"
                "runpy.run_module('opprof', run_name='__main__', alter_sys=True)",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 130, process.stderr
        assert process.stderr == "opprof: interrupted\n"


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_ended_takes_its_unfinished_file_away(
    tmp_path: Path, kind: signal.Signals
) -> None:
    trace = ROOT / "test" / "Profile" / "Inputs" / "mlp_activations.trace.json.gz"
    # Nobody writes to it, so that the file is not finished.
    os.mkfifo(tmp_path / "other.json")
    folder = tmp_path / "out"
    folder.mkdir()
    command = [sys.executable, "-m", "opprof", "report", str(trace), str(tmp_path / "other.json")]
    process = subprocess.Popen(
        [*command, f"--perfetto={folder / 'timeline.json'}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    while process.poll() is None and not list(folder.iterdir()):
        time.sleep(0.01)
    process.send_signal(kind)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if kind == signal.SIGINT else -kind), said
    # Its tool ends behind it.
    end = time.monotonic() + 30
    while list(folder.iterdir()) and time.monotonic() < end:
        time.sleep(0.01)
    assert not list(folder.iterdir())


def test_what_is_wrong_with_a_trace_is_said_of_the_file_that_was_given(tmp_path: Path) -> None:
    inputs = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
    trace = tmp_path / "given.json"
    trace.write_text("{}")
    said = opprof("profile", "--code", inputs, "--trace", trace, "-o", tmp_path / "run")
    assert said.returncode == 1
    assert said.stderr.splitlines()[-1].startswith(f"opprof: error: {trace}: not a trace")


def test_what_runs_generated_code_ends_with_the_command_that_is_killed(tmp_path: Path) -> None:
    inputs = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
    shutil.copytree(inputs, tmp_path / "run" / "model")
    shutil.copy(inputs.parent / "post_grad.json", tmp_path / "run" / "model")
    # It would go on for as long.
    (tmp_path / "torch.py").write_text("import time\ntime.sleep(600)\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-m", "opprof", "launches", str(tmp_path / "run"), "--prove"],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    found: list[str] = []
    while process.poll() is None:
        found = children.read_text().split()
        # Its own tools come first.
        with contextlib.suppress(OSError):
            if found and b"opprof.proof" in Path(f"/proc/{found[0]}/cmdline").read_bytes():
                break
        time.sleep(0.01)
    descriptor = os.pidfd_open(int(found[0]))
    process.kill()
    process.communicate()
    ended, _, _ = select.select([descriptor], [], [], 30)
    if not ended:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    os.close(descriptor)
    assert ended


def test_commands_killed_at_random_leave_nothing_half_written() -> None:
    killer = ROOT / "benchmarks" / "kill_at_random.py"
    said = subprocess.run(
        [sys.executable, str(killer), "--no-torch", "--times", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr


def _sizes(folder: Path) -> dict[str, int]:
    """Of the results in a folder; temporary files, whose names begin with a dot, are none."""
    files = [file for file in folder.rglob("[!.]*") if file.is_file()]
    return {str(file.relative_to(folder)): file.stat().st_size for file in files}


@pytest.mark.parametrize(
    ("limit", "steps"),
    [
        (resource.RLIMIT_FSIZE, [*(256 << step for step in range(10)), 1 << 30]),
        # From less than the program itself has on.
        (resource.RLIMIT_AS, [*range(8 << 20, 24 << 20, 1 << 20), 1 << 36]),
    ],
    ids=["write", "allocation"],
)
def test_a_write_or_an_allocation_that_fails_leaves_nothing_half_written(
    tmp_path: Path, limit: int, steps: list[int]
) -> None:
    """The system refuses what goes beyond a limit that grows from run to run, so that each fails at another place."""
    inputs = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
    trace = ROOT / "test" / "Profile" / "Inputs" / "mlp_activations.trace.json.gz"
    graph = tmp_path / "graph.mlir"
    driver = find_tool("opprof-driver")
    subprocess.run([driver, "import", inputs / "export.json", "-o", graph], check=True)
    profile = [driver, "profile-files", f"--graph={graph}", f"--code={inputs}", f"--trace={trace}"]
    for command, output in (
        ([find_tool("opprof-opt"), str(graph), "-o"], "graph.mlir"),
        (profile, "."),
    ):
        folder = tmp_path / "whole"
        subprocess.run([*command, str(folder / output)], check=True, capture_output=True)
        whole = _sizes(folder)
        statuses = []
        for step in steps:
            shutil.rmtree(folder)
            said = subprocess.run(
                [*command, str(folder / output)],
                capture_output=True,
                preexec_fn=lambda step=step: resource.setrlimit(limit, (step, step)),
                check=False,
            )
            statuses.append(said.returncode)
            folder.mkdir(exist_ok=True)
            left = _sizes(folder)
            assert left.items() <= whole.items(), said.stderr
            # Where there is not even room to begin, the system has the word.
            assert said.stderr or said.returncode < 0 if said.returncode else left == whole
        assert statuses[0] != 0 and statuses[-1] == 0, statuses
        shutil.rmtree(folder)


def test_a_limit_of_the_users_on_files_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """`ulimit -f` kills by a signal who does not ask for an error, and unbuffered streams lose what is not written."""
    inputs = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
    trace = ROOT / "test" / "Profile" / "Inputs" / "mlp_activations.trace.json.gz"
    run, page = tmp_path / "run", tmp_path / "page.html"
    arguments = ("--graph", inputs / "export.json", "--code", inputs, "--trace", trace)
    assert opprof("profile", *arguments, "-o", run).returncode == 0

    def limited(*arguments: object, out: int = subprocess.PIPE) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "opprof", *map(str, arguments)],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)),
            check=False,
        )
        return done.returncode, done.stderr

    status, said = limited("report", run, "--html", page)
    assert (status, said) == (1, f"opprof: error: {page}: cannot be written: File too large\n")
    assert not list(tmp_path.glob("*page*"))
    status, said = limited("recommend", run, "-o", tmp_path / "rewrites")
    assert status == 1 and re.fullmatch(
        rf"opprof: error: {tmp_path}/rewrites/\S+: cannot be written: File too large\n", said
    ), said
    status, said = limited("run", "-o", tmp_path / "program", "true")
    assert status == 0
    assert f"no report was made: {tmp_path}/program/run.json: cannot be written" in said
    with (tmp_path / "out").open("w") as out:
        status, said = limited("explain", "occupancy", out=out.fileno())
    assert status == 1 and "File too large" in said


def test_every_name_of_a_file_is_answered(tmp_path: Path) -> None:
    missing = opprof("report", os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))
    assert missing.returncode == 1
    assert "no such file or folder" in missing.stderr, missing.stderr
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    dangling = opprof("run", "-o", link, "true")
    assert dangling.returncode == 1
    assert f"{link} is a link to {tmp_path}/nowhere, which is not there" in dangling.stderr


def test_files_of_every_name_are_read_and_written(tmp_path: Path) -> None:
    recorded = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
    code = tmp_path / os.fsdecode(b"code\xff")
    shutil.copytree(recorded, code)
    launches = opprof("launches", code)
    assert launches.returncode == 0 and "code?: 8 launches" in launches.stdout, launches.stderr
    write_profile(tmp_path / "run")
    # LLVM puts random digits in the place of each %.
    page = tmp_path / "100%s" / "50%\x1b]0;owned\x07.html"
    written = opprof("report", tmp_path / "run", "--html", page)
    assert written.returncode == 0, written.stderr
    assert [*page.parent.iterdir()] == [page]
    assert "wrote" in written.stderr and not CONTROLS.search(written.stderr)


def test_a_translation_to_a_full_disk_names_its_output(tmp_path: Path) -> None:
    profile = write_profile(tmp_path)
    command = [find_tool("opprof-translate"), "--report-text", str(profile)]
    with Path("/dev/full").open("w") as full:
        for output, name in ((["-o", "/dev/full"], "/dev/full"), ([], "<stdout>")):
            said = subprocess.run(
                [*command, *output], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
            assert said.returncode == 1
            expected = f"error: {name}: cannot be written: No space left on device\n"
            assert said.stderr == expected


def test_numbers_beyond_what_is_counted_with_are_refused(tmp_path: Path) -> None:
    write_profile(tmp_path)
    for option in (("report", "--width"), ("top", "-n")):
        said = opprof(option[0], tmp_path, option[1], "99999999999999")
        assert said.returncode == 2 and "is larger than" in said.stderr, said.stderr


def test_width_and_ascii_are_kept_to(tmp_path: Path) -> None:
    write_profile(tmp_path, "a_kernel_of_a_rather_long_name_that_must_be_cut")
    narrow = opprof("report", tmp_path, "--width", "40")
    assert narrow.returncode == 0, narrow.stderr
    assert max(map(len, narrow.stdout.splitlines())) <= 40
    inputs = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
    whole, narrow = opprof("launches", inputs), opprof("launches", inputs, "--width", "40")
    assert max(map(len, narrow.stdout.splitlines())) <= 40 < len(whole.stdout.splitlines()[1])
    plain = opprof("report", tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.isascii() and " us" in plain.stdout and "?" not in plain.stdout


#: Results of the commands below.
NAMES = ("run", "rewrites", "backend.py")

#: Calls that open text in the locale's encoding where none is named, and how many arguments come before it.
OPENERS = {"read_text": 0, "write_text": 1, "open": 99, "fdopen": 99, "NamedTemporaryFile": 99}


def test_files_are_read_in_one_encoding_whatever_the_locale(tmp_path: Path) -> None:
    """A Latin-1 locale would make other text of ours, and C's none: opprof's files and tools speak UTF-8."""
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    code = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
    trace = ROOT / "test" / "Profile" / "Inputs" / "mlp_activations.trace.json.gz"
    for arguments in (
        ("profile", "--graph", code / "export.json", "--code", code, "--trace", trace, "-o", "run"),
        ("recommend", "run", "-o", "rewrites"),
        ("emit", "rewrites", "-o", "backend.py"),
    ):
        said = opprof(*(tmp_path / a if a in NAMES else a for a in arguments), **plain)
        assert said.returncode == 0, said.stderr
        assert said.stdout.isascii() and said.stderr.isascii()

    def text_of_the_locale(call: ast.Call) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        name = call.func.id if isinstance(call.func, ast.Name) else name
        named = [keyword.arg for keyword in call.keywords]
        if name not in OPENERS or "encoding" in named or ast.unparse(call.func) == "os.open":
            return "text" in named
        modes = [a.value for a in call.args if isinstance(a, ast.Constant)]
        binary = any(isinstance(mode, str) and re.fullmatch("[rwax]?b[+]?", mode) for mode in modes)
        return not binary and len(call.args) <= OPENERS[name]

    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in (ROOT / "python").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and text_of_the_locale(node)
    ]
    assert found == []


def test_html_to_stdout(tmp_path: Path) -> None:
    write_profile(tmp_path)
    said = opprof("report", tmp_path, "--html", "-")
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("<!doctype html>") and said.stdout.rstrip().endswith("</html>")
    assert not (Path.cwd() / "-").exists()


@pytest.fixture
def no_torch(tmp_path: Path) -> str:
    """A folder for PYTHONPATH that hides PyTorch."""
    folder = tmp_path / "hidden"
    folder.mkdir()
    (folder / "torch.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
    )
    return os.pathsep.join([str(folder), str(ROOT / "python")])


@pytest.mark.parametrize("command", ["export", "profile", "optimize"])
def test_without_pytorch_one_line_says_so(tmp_path: Path, no_torch: str, command: str) -> None:
    model = tmp_path / "model.py"
    model.write_text("")
    output = tmp_path / ("graph.mlir" if command == "export" else "out")
    said = opprof(command, model, "-o", output, PYTHONPATH=no_torch)
    assert said.returncode == 1
    assert said.stderr.count("\n") == 1 and "needs PyTorch" in said.stderr
    assert not output.exists()


def test_what_was_not_judged_is_not_proven(tmp_path: Path, no_torch: str) -> None:
    """Neither code without its graph, nor any without PyTorch."""
    code = tmp_path / "run" / "graph"
    inputs = ROOT / "test" / "Target" / "InductorCode" / "Inputs"
    shutil.copytree(inputs / "mlp_activations", code)
    said = opprof("launches", tmp_path / "run", "--prove")
    assert said.returncode == 1 and "nothing was judged" in said.stdout
    (code / "post_grad.json").write_bytes((inputs / "post_grad.json").read_bytes())
    said = opprof("launches", tmp_path / "run", "--prove", PYTHONPATH=no_torch)
    assert said.returncode == 1 and said.stdout == ""
    assert "error: this command needs PyTorch" in said.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", ["export", "profile", "optimize"])
def test_a_missing_script_is_told_before_pytorch_is_loaded(
    tmp_path: Path, no_torch: str, command: str
) -> None:
    said = opprof(command, tmp_path / "none.py", "-o", tmp_path / "out.mlir", PYTHONPATH=no_torch)
    assert said.returncode == 1
    assert "none.py: no such file" in said.stderr and "PyTorch" not in said.stderr


def test_version_names_what_it_works_with() -> None:
    said = opprof("--version")
    assert said.returncode == 0
    lines = said.stdout.splitlines()
    assert re.fullmatch(r"opprof \d+\.\d+\.\d+", lines[0])
    assert re.search(r"LLVM +22\.", said.stdout)
    assert re.search(r"PyTorch +\S", said.stdout) and re.search(r"CUPTI +\S", said.stdout)


def test_completion_follows_the_parser(tmp_path: Path) -> None:
    script = opprof("completion", "bash").stdout
    (tmp_path / "my model.py").touch()
    (tmp_path / "run").mkdir()
    # As bash divides the words, and, with --name=value in one word, as zsh does.
    asked = {
        ("report", "--w"): ["--width"],
        ("rep",): ["report"],
        ("export", "--stage", "ex"): ["export"],
        ("export", "--stage", "=", "post"): ["post_grad"],
        ("export", "--stage=post"): ["--stage=post_grad"],
        ("diff", "--format", "="): ["text", "markdown", "json"],
        ("report", "m"): ["my model.py"],
        ("report", "--html", "r"): ["run"],
        ("completion", ""): ["bash", "zsh", "fish"],
    }
    for words, expected in asked.items():
        ask = "\n".join(
            (
                script,
                f"COMP_WORDS=({shlex.join(('opprof', *words))}); COMP_CWORD={len(words)}; _opprof",
                """printf '%s\\n' "${COMPREPLY[@]}\"""",
            )
        )
        said = subprocess.run(
            ["bash", "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert said.stdout.splitlines() == expected, words
        assert said.stderr == ""
    fish = opprof("completion", "fish").stdout
    assert "complete -c opprof" in fish
    assert "-f -a 'bash zsh fish'" in fish


def test_what_a_model_prints_goes_to_stderr(tmp_path: Path) -> None:
    model = tmp_path / "loud.py"
    model.write_text(
        "import os\nimport torch\nprint('loud: imported')\nos.system('echo loud: shell')\n"
        "def get_model_and_input():\n    print('loud: made')\n    return torch.nn.ReLU(), torch.ones(2)\n"
    )
    said = opprof("export", model, "-o", tmp_path / "graph.mlir")
    assert said.returncode == 0, said.stderr
    assert said.stdout == ""
    assert all(f"loud: {what}" in said.stderr for what in ("imported", "shell", "made"))


def test_kept_schemas_are_the_installed_ones() -> None:
    said = subprocess.run(
        [sys.executable, ROOT / "cmake" / "operator_schemas.py", "check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, f"run cmake/operator_schemas.py record: {said.stdout[:500]}"


def test_schemas_are_kept_of_every_version_that_is_tried() -> None:
    """Graphs of each are read: what has gone from a newer PyTorch is an operator all the same."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    (tried,) = re.findall(r"run: \.ci/wheel (.+)", workflow)
    first, *lines = (ROOT / "cmake" / "operator_schemas.jsonl").read_text().splitlines()
    assert json.loads(first)["torch"] == list(reversed(tried.split()))
    of = {name: versions for name, versions, *_ in map(json.loads, lines)}
    assert of["aten.align_as.default"] == ["2.12", "2.11", "2.10", "2.9"]


def test_jobs_in_containers_find_their_workspace() -> None:
    """A cache saved where nothing was written is empty, and git refuses to list files of another user's checkout."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    _, *jobs = re.split(r"^  \w+:$", workflow.partition("\njobs:\n")[2], flags=re.M)
    contained = [job for job in jobs if "\n    container: " in job]
    assert len(contained) == 2
    for job in contained:
        assert "${{ github.workspace" not in job
        assert "CCACHE_DIR=$GITHUB_WORKSPACE/.ccache" in job
        trusts = job.index('safe.directory "$GITHUB_WORKSPACE"')
        assert job.index("actions/checkout") < trusts < job.index("run: .ci/")


def blocks(page: str) -> list[str]:
    """The Python that a page shows."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def test_the_first_script_of_the_documents_works(tmp_path: Path) -> None:
    (program,) = blocks("docs/first-script.md")
    (tmp_path / "mine.py").write_text(program)
    said = opprof("export", tmp_path / "mine.py", "-o", tmp_path / "mine.mlir")
    assert said.returncode == 0, said.stderr
    assert "fx.graph" in (tmp_path / "mine.mlir").read_text()


def test_the_check_of_the_page_on_ci_works(tmp_path: Path) -> None:
    (check,) = blocks("docs/ci.md")
    ast.parse(check)
    profile = write_profile(tmp_path)
    said = subprocess.run(
        [sys.executable, "-c", check, profile], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0 and "1 launches a step; findings: none" in said.stdout


def test_pages_of_the_site_exist() -> None:
    """mkdocs.yml names every page, and no other."""
    named = set(re.findall(r": ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    there = {file.relative_to(ROOT / "docs").as_posix() for file in (ROOT / "docs").rglob("*.md")}
    assert named == there


def test_links_of_the_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    dead = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert dead == []


def test_the_package_says_what_it_is() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0 WITH LLVM-exception"
    assert "LLVM Exceptions" in (ROOT / "LICENSE").read_text()
    assert (ROOT / "python" / "opprof" / "py.typed").exists()
    assert cli.build_parser().prog == "opprof"


def test_no_name_ends_a_cell_of_a_pull_requests_table(tmp_path: Path) -> None:
    """As GitHub splits rows: a backslash takes what is behind it, and a name may have one before a bar."""
    seed = ROOT / "unittests" / "fuzz" / "corpus" / "diff" / "slower"
    files = [tmp_path / "a.opprof.json", tmp_path / "b.opprof.json"]
    for file, text in zip(files, seed.read_text().split("\f"), strict=True):
        file.write_text(text)
    said = opprof("diff", *files, "--format=markdown")
    assert said.returncode == 0, said.stderr
    rows = [line for line in said.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 8
    assert [len(re.sub(r"\\[^\w\s]", "", row).split("|")) for row in rows] == [10] * 8

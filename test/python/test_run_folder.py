"""Run folders made of files: which folders hold code, what is copied, what is refused."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch

from opprof import run_folder
from opprof.chain import import_graph, map_run, profile_from_files
from opprof.commands.launches import launches_text
from opprof.errors import OpprofError
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.files import replacing
from opprof.run_folder import RunFolder
from opprof.tools import run_tool

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "test" / "Target" / "InductorCode" / "Inputs"


def make_code(folder: Path) -> Path:
    """A folder that looks like Inductor's."""
    folder.mkdir(parents=True)
    (folder / "output_code.py").write_text("# AOT ID: ['0_inference']\n")
    return folder


def test_code_folders_are_in_the_order_of_compilation(tmp_path: Path) -> None:
    names = ["model__0_inference_0.0", "model__1_backward_12.10", "model__1_forward_3.2"]
    code = FIXTURES / "mlp_activations" / "output_code.py"
    for name in names:
        folder = make_code(tmp_path / "run" / "torchinductor" / name)
        shutil.copyfile(code, folder / "output_code.py")

    def found(path: Path) -> list[str]:
        return [entry["graph"] for entry in json.loads(launches_text(path, None, as_json=True))]

    assert found(tmp_path) == [names[0], names[2], names[1]]
    assert found(tmp_path / "run" / "torchinductor" / names[0]) == names[:1]
    # A link may lead to where the search came from.
    (tmp_path / "run" / "again").symlink_to(tmp_path)
    assert len(found(tmp_path)) == 3
    in_run = RunFolder(tmp_path / "run" / "torchinductor").compiled_graphs()
    assert [folder.name for folder in in_run] == [names[0], names[2], names[1]]


def test_a_link_in_place_of_what_is_taken_away_loses_no_file(tmp_path: Path) -> None:
    """The run folder may be a stranger's, and lead to any folder by the names that a killed run leaves."""
    run, own, code = tmp_path / "run", tmp_path / "own", make_code(tmp_path / "code")
    for folder in (run, own):
        folder.mkdir()
    (own / "thesis.txt").write_text("all of it")
    links = [run / name for name in (".inductor", f"{run_folder.RECORDING}0", "model__0")]
    for link in links:
        link.symlink_to(code if link.name == "model__0" else own)
    RunFolder(run).clear()
    assert (own / "thesis.txt").is_file() and (code / "output_code.py").is_file()
    assert not links[0].is_symlink() and not links[2].is_symlink()


def test_the_driver_calls_files_as_python_does() -> None:
    """The names stand in C++ and in Python, which writes some of the files before any native process runs."""
    header = (ROOT / "include" / "opprof" / "Driver" / "RunFolder.h").read_text()
    assert f'kRecording = "{run_folder.RECORDING}"' in header
    native: dict[str, str] = {}
    for name, made in re.findall(
        r"std::string (\w+)\(\) const \{\s*return file\((.*?)\);\s*\}", header, re.DOTALL
    ):
        parts = re.findall(r'"([^"]*)"|(process)', made)
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        native[snake] = "".join("-r0-p7" if process else text for text, process in parts)
    folder = RunFolder(Path("run"), "-r0-p7")
    known = [name for name, member in vars(RunFolder).items() if isinstance(member, property)]
    assert len(known) > 10
    assert {name: getattr(folder, name).name for name in known} == {
        name: native[name] for name in known
    }
    constants = dict(re.findall(r'StringLiteral (k\w+) = "(.*?)"', header))
    in_python = {
        "kOutput": run_folder.OUTPUT_CODE,
        "kPostGrad": run_folder.POST_GRAD,
        "kGraphJSON": run_folder.CODE_GRAPH,
        "kLaunches": run_folder.LAUNCHES,
    }
    assert in_python.items() <= constants.items()


def test_only_what_is_needed_is_taken_of_what_inductor_left(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    name = "model__0_inference_0.0"
    source = folder.scratch / "torchinductor" / name
    shutil.copytree(FIXTURES / "mlp_activations", source)
    (source / "export.json").rename(folder.graph_json)
    (source / "ir_post_fusion.txt").write_text("op0: SchedulerNode")
    map_run(folder)
    assert {path.name for path in (folder.path / name).iterdir()} == {
        *("output_code.py", "fx_graph_transformed.py", "launches.json"),
        "inductor_provenance_tracking_node_mappings.json",
    }
    assert not folder.scratch.exists()
    # A second time there is nothing to take.
    map_run(folder)
    assert folder.compiled_graphs() == [folder.path / name]


def test_an_earlier_run_is_taken_away_and_nothing_else(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    own = make_code(tmp_path / "model__0_inference_0.0")
    (own / "launches.json").write_text("{}")
    below = make_code(tmp_path / "another run" / "model__0_inference_0.0")
    for file in (folder.run, folder.trace, folder.capture, folder.counters, folder.report_text):
        file.write_text("of the earlier run")
    # By what run.json says, these are a run's.
    folder.run.write_text('{"version": 1}')
    (tmp_path / "notes.txt").write_text("the user's")
    assert folder.compiled_graphs() == [own]
    folder.clear()
    assert {path.name for path in tmp_path.iterdir()} == {"another run", "notes.txt"}
    assert (below / "output_code.py").is_file()


def test_what_a_killed_run_left_half_written_is_taken_away(tmp_path: Path) -> None:
    own = make_code(tmp_path / "model__0_inference_0.0")
    # As LLVM names the file beside the one that is being written.
    (own / ".launches.json.0a8b4e4c").write_text("{")
    RunFolder(tmp_path).clear()
    assert not own.exists()
    for name in (".launches.json.mine", ".notes.txt.0a8b4e4c", "launches.json.0a8b4e4c"):
        other = make_code(tmp_path / "model__0_inference_0.0")
        (other / name).write_text("the user's")
        with pytest.raises(OpprofError, match=re.escape(name)):
            RunFolder(tmp_path).clear()
        shutil.rmtree(other)


def test_code_that_is_not_of_a_run_is_left_alone(tmp_path: Path) -> None:
    debug = make_code(tmp_path / "torchinductor" / "model__0_inference_0.0")
    (debug / "ir_post_fusion.txt").write_text("op0: SchedulerNode")
    with pytest.raises(OpprofError, match="ir_post_fusion"):
        RunFolder(debug.parent).clear()
    with pytest.raises(OpprofError, match="debug folder of Inductor"):
        RunFolder(debug).clear()
    assert (debug / "ir_post_fusion.txt").is_file() and (debug / "output_code.py").is_file()


def test_a_run_folder_is_not_made_of_itself(tmp_path: Path) -> None:
    code = make_code(tmp_path / "model__0_inference_0.0")
    graph, trace = tmp_path / "graph.json", tmp_path / "trace.json.gz"
    graph.write_text("{}")
    trace.write_bytes(b"")
    with pytest.raises(OpprofError, match="holds the files"):
        profile_from_files(graph, tmp_path, trace, tmp_path)
    assert (code / "output_code.py").is_file() and trace.is_file()


def test_import_graph(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    source = tmp_path / "graph.json"
    write_graph_json(source, source_of_exported_program(program, "model"))
    bytecode = tmp_path / "graph.mlirbc"
    import_graph(source, bytecode)
    assert bytecode.read_bytes()[:4] == b"ML\xefR"
    text = tmp_path / "graph.mlir"
    text.write_bytes(run_tool("opprof-opt", [bytecode]))
    assert '"aten.relu.default"' in text.read_text()
    again = tmp_path / "again.mlirbc"
    import_graph(text, again)
    assert run_tool("opprof-opt", [again]) == text.read_bytes()


def test_import_of_a_broken_graph_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "graph.json"
    source.write_text('{"opprof_graph_version": 1, "graphs": [')
    with pytest.raises(OpprofError, match=r"graph\.json"):
        import_graph(source, tmp_path / "graph.mlirbc")
    assert [path.name for path in tmp_path.iterdir()] == ["graph.json"]


def test_import_of_an_unknown_kind(tmp_path: Path) -> None:
    with pytest.raises(OpprofError, match=r"model\.onnx: not a graph"):
        import_graph(tmp_path / "model.onnx", tmp_path / "graph.mlirbc")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    with replacing(path) as file:
        file.write("first")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write("second")
        raise ZeroDivisionError
    assert path.read_text() == "first"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.txt"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OpprofError, match=r"file is a file"), replacing(tmp_path / "file" / "x"):
        pass
    with pytest.raises(OpprofError, match="it is a folder"), replacing(tmp_path):
        pass


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    null = tmp_path / "null"
    null.symlink_to(os.devnull)
    with replacing(null) as file:
        file.write("text")
    assert null.is_symlink() and null.is_char_device()
    assert list(tmp_path.iterdir()) == [null]


def test_a_folder_that_cannot_be_made_says_what_stands_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OpprofError, match=r"run: cannot be a folder of results: .*file is a file"):
        RunFolder(tmp_path / "file" / "run").check()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "[" * 100_000, "\udcff"], ids=["empty", "open", "list", "deep", "bytes"]
)
def test_what_is_no_json_object_is_refused(tmp_path: Path, text: str) -> None:
    """A run folder may come from anybody."""
    folder = RunFolder(tmp_path)
    folder.run.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(OpprofError, match=r"run\.json: cannot be read: "):
        folder.read_run()

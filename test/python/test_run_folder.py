"""Run folders made of files: which folders hold code, what is copied, what is refused."""

import gzip
import os
from pathlib import Path

import pytest
import torch

from opprof.errors import OpprofError
from opprof.files import replacing
from opprof.graph_json import source_of_exported_program, write_graph_json
from opprof.run_folder import RunFolder, code_folders, copy_code, copy_trace, import_graph
from opprof.tools import run_tool


def make_code(folder: Path) -> Path:
    """A folder that looks like Inductor's."""
    folder.mkdir(parents=True)
    (folder / "output_code.py").write_text("# AOT ID: ['0_inference']\n")
    return folder


def test_code_folders_are_in_the_order_of_compilation(tmp_path: Path) -> None:
    names = ["model__0_inference_0.0", "model__1_backward_12.10", "model__1_forward_3.2"]
    for name in names:
        make_code(tmp_path / "run" / "torchinductor" / name)
    found = [folder.name for folder in code_folders(tmp_path)]
    assert found == [names[0], names[2], names[1]]
    assert code_folders(tmp_path / "run" / "torchinductor" / names[0])[0].name == names[0]


def test_only_what_is_needed_is_copied(tmp_path: Path) -> None:
    source = make_code(tmp_path / "model__0_inference_0.0")
    (source / "ir_post_fusion.txt").write_text("op0: SchedulerNode")
    (source / "fx_graph_transformed.py").write_text("class GraphModule: pass")
    copy_code(source, tmp_path / "run" / source.name)
    copied = {path.name for path in (tmp_path / "run" / source.name).iterdir()}
    assert copied == {"output_code.py", "fx_graph_transformed.py"}


@pytest.mark.parametrize("compressed", [False, True])
def test_the_trace_is_compressed_once(tmp_path: Path, compressed: bool) -> None:
    text = b'{"traceEvents": []}'
    trace = tmp_path / "trace.json"
    trace.write_bytes(gzip.compress(text) if compressed else text)
    folder = RunFolder(tmp_path / "run")
    copy_trace(trace, folder)
    assert gzip.decompress(folder.trace.read_bytes()) == text


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
    with pytest.raises(OpprofError, match="cannot be written"), replacing(tmp_path / "file" / "x"):
        pass

"""Archives of torch.export give the graph that the exporter gives for the same program, but for what they do not hold."""

import io
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import EXAMPLE_NAMES, import_graph
from torch._export.serde import serialize

from opprof.export.model_script import load_model_script
from opprof.export.stages import export_program
from opprof.tools import find_tool, run_tool


def graphs_of(mlir: Path) -> list[dict[str, Any]]:
    """The graphs of an MLIR file as JSON, tables resolved, without what archives do not keep."""
    document = json.loads(run_tool("opprof-translate", ["--export-fx-json", mlir]))

    def type_of(index: int) -> Any:
        entry = document["types"][index]
        if isinstance(entry, str):
            return entry
        ((kind, content),) = entry.items()
        if kind in ("tuple", "list"):
            return {kind: [type_of(element) for element in content]}
        return entry

    def plain(value: Any) -> Any:
        """Tuples are lists in an archive."""
        if isinstance(value, dict):
            return (
                plain(value["tuple"])
                if "tuple" in value
                else {k: plain(v) for k, v in value.items()}
            )
        return [plain(element) for element in value] if isinstance(value, list) else value

    for graph in document["graphs"]:
        used = json.dumps([node["args"] for node in graph["nodes"]] + [graph["outputs"]])
        # An output that nothing takes has no node in an archive.
        graph["nodes"] = [
            node
            for node in graph["nodes"]
            if node["target"] != "operator.getitem" or f'"node": "{node["name"]}"' in used
        ]
        for entry in graph["inputs"] + graph["nodes"]:
            for key in ("seq_nr", "original_aten", "from_node"):
                entry.pop(key, None)
            if "type" in entry:
                entry["type"] = plain(type_of(entry["type"]))
            if entry.get("type") == "none":
                # Decomposition forgets it of nodes that only act.
                del entry["type"]
            if entry.get("target") == "operator.getitem":
                # An archive says nothing of it; it gets what is known of the node that it takes apart.
                entry.pop("stack", None)
                entry.pop("modules", None)
            if "args" in entry:
                entry["args"] = plain(entry["args"])
            if "modules" in entry:
                entry["modules"] = document["modules"][entry["modules"]]
            if "stack" in entry:
                entry["stack"] = document["stacks"][entry["stack"]]
                for frame in entry["stack"]:
                    frame["file"] = (
                        os.path.relpath(frame["file"])
                        if frame["file"].startswith("/")
                        else frame["file"]
                    )
    return document["graphs"]


def check(program: torch.export.ExportedProgram, folder: Path) -> Path:
    archive = folder / "program.pt2"
    torch.export.save(program, archive)
    run_tool("opprof-translate", ["--import-pt2", archive, "-o", folder / "pt2.mlir"])
    expected = graphs_of(import_graph(program, "program", folder))
    actual = graphs_of(folder / "pt2.mlir")
    assert [graph["name"] for graph in expected] == [graph["name"] for graph in actual]
    for left, right in zip(expected, actual, strict=True):
        for key in left:
            if isinstance(left[key], list):
                for one, other in zip(left[key], right[key], strict=True):
                    # An archive keeps no records of what takes one of several results: it has those of the call.
                    if one.get("target") == "operator.getitem":
                        one, other = ({**node, "torch_fn": None} for node in (one, other))
                    assert one == other
            else:
                assert left[key] == right[key]
    return folder / "pt2.mlir"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_example(name: str, examples: Path, tmp_path: Path) -> None:
    check(export_program(load_model_script(examples / f"{name}.py")), tmp_path)


class Everything(torch.nn.Module):
    """Dynamic shapes, subgraphs, mutation, several outputs, unbacked symbols."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x: torch.Tensor, *, k: torch.Tensor) -> Any:
        rows = x.shape[0]
        y = x.new_full((2 * rows + 1, 3), rows)
        self.count.add_(1)
        values, _ = x.topk(2, dim=1)
        z = torch.cond(x.sum() > 0, lambda a: self.linear(a).sin(), lambda a: a + 2.0, (x,))
        with torch.no_grad():
            w = x.exp()
        first, _ = x.split([1, 2], dim=1)
        found = torch.nonzero(x).shape[0]
        u = torch.where(x > 0, x, float("-inf")).to(torch.complex64) + (1.5 - 2j)
        v = torch.zeros(3, dtype=torch.bfloat16, device="cpu", layout=torch.strided)
        i = x[:, torch.tensor([0, 2])].clone(memory_format=torch.contiguous_format)
        return (
            [y, values, z + k, w],
            {"a": first, "n": rows * 2 - 1, "none": None, "found": found},
            u,
            v,
            i,
            self.scratch,
            3,
        )


@pytest.mark.parametrize("functional", [False, True])
def test_every_part_of_the_schema(functional: bool, tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(
        Everything(),
        (torch.randn(4, 3),),
        {"k": torch.tensor(1.0)},
        dynamic_shapes={"x": {0: batch}, "k": None},
    )
    if functional:
        program = program.run_decompositions({})
    text = check(program, tmp_path).read_text()
    assert "higher_order.cond" in text


def test_an_archive_runs_as_python(examples: Path, tmp_path: Path) -> None:
    script = load_model_script(examples / "mlp_activations.py")
    program = export_program(script)
    mlir = check(program, tmp_path)
    run_tool("opprof-translate", ["--emit-python", mlir, "-o", tmp_path / "program.py"])
    namespace: dict[str, Any] = {}
    exec(compile((tmp_path / "program.py").read_text(), "program.py", "exec"), namespace)
    with torch.no_grad():
        expected = program.module()(*script.args)
        assert torch.equal(namespace["load"](dict(program.state_dict))(*script.args), expected)


def model_json(program: torch.export.ExportedProgram) -> dict[str, Any]:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(buffer) as archive:
        (name,) = (name for name in archive.namelist() if "/models/" in name)
        return json.loads(archive.read(name))


class Small(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values, _ = x.relu().topk(2)
        return values.sum(dim=0, keepdim=True)


@pytest.fixture(scope="module")
def small() -> dict[str, Any]:
    return model_json(torch.export.export(Small(), (torch.randn(4, 4),)))


def pack(path: Path, document: Any, name: str = "archive/models/model.json") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/archive_format", "pt2")
        text = document if isinstance(document, (str, bytes)) else json.dumps(document)
        archive.writestr(name, text)
        # What a reader may not look at.
        archive.writestr(
            "archive/data/sample_inputs/model.pt", b"\x80\x04cos\nsystem\n(S'false'\ntR."
        )
    return path


def test_the_layout_before_2_8(small: dict[str, Any], tmp_path: Path) -> None:
    old = pack(tmp_path / "old.pt2", small, "serialized_exported_program.json")
    new = pack(tmp_path / "new.pt2", small)
    texts = [
        run_tool("opprof-translate", ["--import-pt2", file]).decode().replace("@archive", "@old")
        for file in (old, new)
    ]
    assert texts[0] == texts[1]
    assert "fx.graph @old" in texts[0]


def test_archives_without_kinds_and_node_names(small: dict[str, Any], tmp_path: Path) -> None:
    """PyTorch 2.6 wrote neither; the schema says which arguments are keywords."""
    newer = run_tool("opprof-translate", ["--import-pt2", pack(tmp_path / "a.pt2", small)])
    document = json.loads(json.dumps(small))
    document["schema_version"]["minor"] = 2
    for node in document["graph_module"]["graph"]["nodes"]:
        del node["name"]
        for argument in node["inputs"]:
            del argument["kind"]
    older = run_tool("opprof-translate", ["--import-pt2", pack(tmp_path / "b.pt2", document)])
    # A default that was given by position is given by keyword: nothing else differs.
    assert (
        b'"aten.sum.dim_IntList"(%getitem, [0], keepdim = true)' in older or b"dim = [0]" in older
    )
    assert older.count(b"fx.node") == newer.count(b"fx.node")


def run(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [find_tool("opprof-translate"), "--import-pt2", path],
        capture_output=True,
        text=True,
        timeout=60,
    )


def without(*path: str | int) -> Callable[[Any], None]:
    def edit(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return edit


def with_value(value: Any, *path: str | int) -> Callable[[Any], None]:
    def edit(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return edit


NODES = ("graph_module", "graph", "nodes")
BROKEN = {
    "no version": (without("schema_version"), "has no 'schema_version'"),
    "old version": (
        with_value(5, "schema_version", "major"),
        "its schema is version 5; opprof reads version 8",
    ),
    "no graph": (
        without("graph_module", "graph"),
        "'graph_module', its 'graph' or its 'signature' is missing",
    ),
    "no nodes": (without(*NODES), "graph 'archive': the required key 'nodes' is missing"),
    "no target": (
        without(*NODES, 0, "target"),
        "graph 'archive', node 'relu': the required key 'target' is missing",
    ),
    "dangling": (
        with_value("nobody", *NODES, 1, "inputs", 0, "arg", "as_tensor", "name"),
        "node 'topk': refers to 'nobody', which no input or earlier node of the graph gives",
    ),
    "duplicate": (
        with_value("relu", *NODES, 1, "name"),
        "node 'relu': a second node or input of this name",
    ),
    "two keys": (
        with_value({"as_int": 1, "as_none": True}, *NODES, 0, "inputs", 0, "arg"),
        "holds an argument that is no object with one key",
    ),
    "fraction": (
        with_value(1.5, *NODES, 1, "inputs", 1, "arg", "as_int"),
        "node 'topk': 'as_int' holds no whole number of 64 bits",
    ),
    "huge": (
        with_value(2**70, *NODES, 1, "inputs", 1, "arg", "as_int"),
        "not valid JSON: Problem while parsing a number",
    ),
    "negative size": (
        with_value(-3, "graph_module", "graph", "tensor_values", "x", "sizes", 0, "as_int"),
        "graph 'archive': the tensor 'x' has a size of -3",
    ),
    "unknown dtype": (
        with_value(99, "graph_module", "graph", "tensor_values", "x", "dtype"),
        "graph 'archive': the tensor 'x' is of the dtype 99",
    ),
    "signature": (
        without("graph_module", "signature", "input_specs", 0),
        "but its signature speaks of 0",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_graphs_are_named(case: str, small: dict[str, Any], tmp_path: Path) -> None:
    edit, message = BROKEN[case]
    document = json.loads(json.dumps(small))
    edit(document)
    process = run(pack(tmp_path / "broken.pt2", document))
    assert process.returncode == 1
    assert process.stdout == ""
    assert "broken.pt2: archive/models/model.json: " in process.stderr
    assert message in process.stderr


def test_an_argument_of_a_newer_schema_is_kept(small: dict[str, Any], tmp_path: Path) -> None:
    document = json.loads(json.dumps(small))
    with_value({"as_matrix": [1]}, *NODES, 1, "inputs", 1, "arg")(document)
    process = run(pack(tmp_path / "newer.pt2", document))
    assert process.returncode == 0
    assert '#fx.object<"as_matrix", "[1]">' in process.stdout


def test_subgraphs_nested_too_deep(small: dict[str, Any], tmp_path: Path) -> None:
    graph = json.loads(json.dumps(small["graph_module"]["graph"]))
    inner = json.dumps(graph)
    for _ in range(40):
        inner = json.dumps(graph).replace(
            '{"as_int": 2}', '{"as_graph": {"name": "g", "graph": %s}}' % inner, 1
        )
    document = json.loads(json.dumps(small))
    document["graph_module"]["graph"] = json.loads(inner)
    process = run(pack(tmp_path / "deep.pt2", document))
    assert process.returncode == 1
    assert "subgraphs are nested deeper than 32" in process.stderr


class EveryFormat(torch.nn.Module):
    """Each dtype that archives have a number for, and each memory format."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        made = [torch.empty(2, dtype=dtype) for dtype in serialize._TORCH_TO_SERIALIZE_DTYPE]
        images = [
            x.clone(memory_format=memory_format)
            for memory_format in serialize._TORCH_TO_SERIALIZE_MEMORY_FORMAT
            if memory_format != torch.channels_last_3d
        ]
        return made + images + [y.clone(memory_format=torch.channels_last_3d)]


# MLIR's element type of every dtype that archives have a number for.
ELEMENT_TYPES = {
    "uint8": "ui8",
    "int8": "i8",
    "uint16": "ui16",
    "int16": "i16",
    "uint32": "ui32",
    "int32": "i32",
    "uint64": "ui64",
    "int64": "i64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex32": "complex<f16>",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "bool": "i1",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
}


@pytest.mark.filterwarnings("ignore")
def test_every_dtype_and_memory_format(tmp_path: Path) -> None:
    example = (torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4, 5))
    text = check(torch.export.export(EveryFormat(), example), tmp_path).read_text()
    for dtype in map(name_of, serialize._TORCH_TO_SERIALIZE_DTYPE):
        made = rf'#fx.dtype<"{dtype}">.* -> tensor<2x{re.escape(ELEMENT_TYPES[dtype])}, '
        assert re.search(made, text), dtype
    for memory_format in map(name_of, serialize._TORCH_TO_SERIALIZE_MEMORY_FORMAT):
        assert f'memory_format = #fx.memory_format<"{memory_format}">' in text


def name_of(value: Any) -> str:
    return str(value).removeprefix("torch.")


# What PyTorch writes for each value of an enumeration of its, by the key in an argument.
ENUMERATIONS = {
    "scalar_type": ("dtype", serialize._TORCH_TO_SERIALIZE_DTYPE),
    "memory_format": ("memory_format", serialize._TORCH_TO_SERIALIZE_MEMORY_FORMAT),
    "layout": ("layout", serialize._TORCH_TO_SERIALIZE_LAYOUT),
}


@pytest.mark.parametrize("key", ENUMERATIONS)
def test_every_value_of_an_enumeration(key: str, small: dict[str, Any], tmp_path: Path) -> None:
    """Also those that no graph of this machine can hold."""
    attribute, table = ENUMERATIONS[key]
    document = json.loads(json.dumps(small))
    document["graph_module"]["graph"]["nodes"][0]["inputs"] = [
        {"name": f"a{code}", "arg": {f"as_{key}": int(code)}, "kind": 2} for code in table.values()
    ]
    text = run(pack(tmp_path / "enumeration.pt2", document)).stdout
    for value, code in table.items():
        assert f'a{int(code)} = #fx.{attribute}<"{name_of(value)}">' in text


def test_every_layout_of_a_tensor(small: dict[str, Any], tmp_path: Path) -> None:
    for value, code in serialize._TORCH_TO_SERIALIZE_LAYOUT.items():
        document = json.loads(json.dumps(small))
        document["graph_module"]["graph"]["tensor_values"]["x"]["layout"] = int(code)
        text = run(pack(tmp_path / "layout.pt2", document)).stdout
        layouts = re.findall(r'#fx.tensor<"cpu".*layout = "([^"]*)"', text)
        assert layouts == ([] if value is torch.strided else [name_of(value)])


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0", "cuda:3", "meta", "xpu:1"])
def test_devices(device: str, small: dict[str, Any], tmp_path: Path) -> None:
    kind, _, index = device.partition(":")
    written = {"type": kind, "index": int(index) if index else None}
    document = json.loads(json.dumps(small))
    graph = document["graph_module"]["graph"]
    graph["tensor_values"]["x"]["device"] = written
    graph["nodes"][0]["inputs"] = [{"name": "d", "arg": {"as_device": written}, "kind": 2}]
    text = run(pack(tmp_path / "device.pt2", document)).stdout
    assert f'd = #fx.device<"{device}">' in text
    assert f'#fx.tensor<"{device}"' in text


ARCHIVES = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello", "this is no zip archive, and so no .pt2 file"),
    "json": (b'{"opprof_graph_version": 1}', "this is no zip archive"),
}


@pytest.mark.parametrize("case", ARCHIVES)
def test_other_files(case: str, tmp_path: Path) -> None:
    content, message = ARCHIVES[case]
    path = tmp_path / "other.pt2"
    path.write_bytes(content)
    process = run(path)
    assert process.returncode == 1
    assert f"other.pt2: {message}" in process.stderr


def test_truncated(small: dict[str, Any], tmp_path: Path) -> None:
    path = pack(tmp_path / "whole.pt2", small)
    path.write_bytes(path.read_bytes()[:-100])
    process = run(path)
    assert process.returncode == 1
    assert "the zip archive has no directory at its end: it was truncated" in process.stderr


def test_damaged(small: dict[str, Any], tmp_path: Path) -> None:
    path = pack(tmp_path / "whole.pt2", small)
    data = bytearray(path.read_bytes())
    place = data.index(b"models/model.json") + 200
    data[place] ^= 0xFF
    path.write_bytes(data)
    process = run(path)
    assert process.returncode == 1
    assert "entry 'archive/models/model.json': " in process.stderr


def test_bomb(tmp_path: Path) -> None:
    process = run(pack(tmp_path / "bomb.pt2", " " * (64 << 20)))
    assert process.returncode == 1
    assert "this is a zip bomb" in process.stderr


@pytest.mark.parametrize(
    "name", ["../../etc/models/model.json", "/models/model.json", "a\\models/model.json"]
)
def test_escaping_paths(name: str, small: dict[str, Any], tmp_path: Path) -> None:
    process = run(pack(tmp_path / "escape.pt2", small, name))
    assert process.returncode == 1
    assert "holds an entry outside its own folder" in process.stderr


def test_no_model(tmp_path: Path) -> None:
    process = run(pack(tmp_path / "none.pt2", "{}", "archive/data/x.json"))
    assert process.returncode == 1
    assert "torch.export.save did not write it" in process.stderr
    process = run(
        pack(tmp_path / "aoti.pt2", "{}", "archive/data/aotinductor/model/x.wrapper.json")
    )
    assert "this is an AOTInductor package" in process.stderr


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_edit_of_the_json_is_read_or_refused(
    data: st.DataObject, small: dict[str, Any], tmp_path: Path
) -> None:
    """A value somewhere in the document becomes another one: never a crash, and output only where it worked."""
    document = json.loads(json.dumps(small))
    place, key = document, "graph_module"
    while True:
        child = place[key]
        keys = (
            list(child)
            if isinstance(child, dict)
            else list(range(len(child)))
            if isinstance(child, list)
            else []
        )
        if not keys or data.draw(st.integers(0, 9)) == 0:
            break
        place, key = child, data.draw(st.sampled_from(keys))
    place[key] = data.draw(
        st.sampled_from(
            [
                None,
                True,
                -1,
                2**63,
                1.5,
                "",
                "x",
                [],
                {},
                [None],
                {"as_int": 1},
                {"as_tensor": {"name": "x"}},
            ]
        )
    )
    process = run(pack(tmp_path / "edited.pt2", document))
    assert process.returncode in (0, 1)
    assert (process.returncode == 0) == (process.stdout != "")
    assert process.returncode == 0 or "edited.pt2: " in process.stderr

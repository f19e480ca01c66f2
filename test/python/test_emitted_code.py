"""What stands in a file is data: whatever is written into its fields, the emitted program holds comments, strings and known calls."""

import ast
import functools
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from opprof.backend.emit import emit
from opprof.backend.rewrites import read_rewrites
from opprof.commands.emit import emit_backend
from opprof.errors import OpprofError
from opprof.tools import find_tool

# What would run, write or read something if it became code.
TEXTS = [
    "x\nopen('PWNED', 'w')",
    "x\ropen('PWNED', 'w')",
    "x\x0copen('PWNED', 'w')",
    "x\u2028open('PWNED', 'w')",
    'x"""\nopen("PWNED", "w")\n"""',
    '\\"\\"\\"\nopen("PWNED", "w")\n#',
    "x\\",
    "x'''",
    "' + open('PWNED', 'w') + '",
    '" + open("PWNED", "w") + "',
    "{open('PWNED', 'w')}",
    "\\N{NOT A NAME}",
    "x\x00y\x1b[2J",
    "\u202eopen('PWNED')\u202c",
    "# coding: utf-7\n+AG8-pen('PWNED')",
    "x)\n\n    open('PWNED', 'w')\n",
    "__import__('os').system('touch PWNED')",
]
FUNCTIONS = [
    "torch.cuda.os.system",
    "torch.os.system",
    "torch.hub.load",
    "torch.serialization.load",
    "torch.nn.functional.importlib.import_module",
    "torch.nn.functional.boolean_dispatch",
    "torch.nn.modules.os.system",
    "torch.from_file",
    "torch.save",
    "torch.compile",
    "torch.ops.load_library",
    "torch.utils.cpp_extension.load_inline",
    "torch._C._jit_get_operation",
    "torch._C.import_ir_module",
    "torch.Tensor.__reduce_ex__",
    "torch.Tensor.tofile",
    "torch.Tensor.register_hook",
    "torch.distributed.rpc.rpc_sync",
    "torch.fx.symbolic_trace",
    "torch.autograd.os.system",
    "torch.__builtins__.exec",
    "operator.attrgetter",
    "operator.methodcaller",
    "operator.call",
    "operator.__loader__",
    "math.__loader__.load_module",
    "builtins.exec",
    "builtins.__import__",
    "builtins.getattr",
    "eval",
    "open",
    "getattr",
    "setattr",
    "__import__",
    "aten.save.default",
    "aten.from_file.default",
    "aten.add.__class__",
    "debugprims.load_tensor.default",
    "import_module.__call__",
    "load_library.__func__",
    "load_library",
    "mylib.__class__.mro",
    "mylib.name.format",
    "mylib.op._op",
    "higher_order.inline_asm_elementwise",
    "higher_order.triton_kernel_wrapper_mutation",
    "higher_order.call_torchbind",
    "higher_order.__class__",
    "os.system.run.it",
    "aten.add(1) or open('PWNED', 'w').Tensor",
]
METHODS = [
    "tofile",
    "numpy",
    "untyped_storage",
    "storage",
    "apply_",
    "map_",
    "register_hook",
    "share_memory_",
    "__class__",
    "__reduce_ex__",
    "__init_subclass__",
    "__getattribute__",
    "__setattr__",
    "format",
    "from_file",
    "relu().exit",
]
ATTRIBUTES = ["__class__", "__dict__", "grad_fn", "__init__", "_backward_hooks", "T.__class__", ""]
CONSTANTS = ["load", "os", "hub", "save", "compile", "float32.__class__", ""]


def quoted(text: str) -> str:
    """`text` as an MLIR string."""
    return '"' + "".join(f"\\{byte:02X}" for byte in text.encode()) + '"'


def graph(
    *, name: str = '"g"', input: str = '"x"', extra: str = "", node: str = "", loc: str = ""
) -> str:
    return (
        f"fx.graph @{name}(%x: tensor<4xf32> {{fx.name = {input}{extra}}}) -> tensor<4xf32> {{\n"
        f"  {node}\n"
        f'  %last = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>{loc}\n'
        "  fx.output(%last) : (tensor<4xf32>)\n}\n"
    )


def script(
    *, name: str = '"r"', title: str = '"t"', explanation: str = '"e"', node: str = ""
) -> str:
    return f"""!x = tensor<2x8xf32, #fx.tensor<"cpu">>
module attributes {{transform.with_named_sequence, fx.rewrite = {{name = {name}, title = {title}, explanation = {explanation}}}}} {{
  fx.graph private @pattern(%x: !x) -> !x {{
    %0 = fx.node "aten.relu.default"(%x) : (!x) -> !x
    fx.output(%0) : (!x)
  }}
  fx.graph private @replacement(%x: !x) -> !x {{
    {node}
    %last = fx.node "aten.relu.default"(%x) : (!x) -> !x
    fx.output(%last) : (!x)
  }}
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }}
}}
"""


def translated(option: str, source: Path, text: str) -> str | None:
    """What opprof-translate writes, or None where it refuses."""
    source.write_text(text)
    process = subprocess.run(
        [find_tool("opprof-translate"), option, source], capture_output=True, check=False
    )
    assert process.returncode in (0, 1), process.stderr
    if process.returncode:
        assert not process.stdout and process.stderr
        return None
    return process.stdout.decode()


def program(source: Path, text: str) -> str | None:
    return translated("--emit-python", source, text)


def rewrite(source: Path, text: str) -> str | None:
    return translated("--emit-rewrite", source, text)


def calls(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def reads(tree: ast.AST) -> set[str]:
    """Attributes and names of modules that the code reaches."""
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@dataclass
class Code:
    """What a file defines, calls and reads, and the kinds of its statements, outermost and all."""

    defined: set[str]
    calls: set[str]
    reads: set[str]
    outer: list[str]
    inner: list[str]


@functools.cache
def code_of(text: str) -> Code:
    """Of one text once, as a backend has thousands of lines and many are held against it."""
    # What Python runs is what the bytes say, also where a comment names another encoding.
    tree = ast.parse(text.encode())
    return Code(
        {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)},
        calls(tree),
        reads(tree),
        [type(node).__name__ for node in tree.body],
        [type(node).__name__ for node in ast.walk(tree) if isinstance(node, ast.stmt)],
    )


def assert_same_code(actual: str, benign: str) -> None:
    """The same statements, calls and attributes as those of a benign file, but for the names of functions and values."""
    left, right = code_of(actual), code_of(benign)
    for call in left.calls:
        assert call in right.calls or call in left.defined, call
    assert left.reads == right.reads
    assert left.outer == right.outer
    assert left.inner == right.inner


PROGRAM_TEXTS: dict[str, Callable[[str], str]] = {
    "graph": lambda text: graph(name=quoted(text)),
    "input": lambda text: graph(input=quoted(text)),
    "kind": lambda text: graph(extra=f', fx.kind = {quoted(text)}, fx.target = "w"'),
    "target": lambda text: graph(extra=f', fx.kind = "parameter", fx.target = {quoted(text)}'),
    "value": lambda text: graph(loc=f" loc({quoted(text)})"),
    "file": lambda text: graph(loc=f" loc(fused<{{code = {quoted(text)}}}>[{quoted(text)}:1:1])"),
    "range": lambda text: graph(node=f"prof.range_push {quoted(text)}\n  prof.range_pop"),
    "argument": lambda text: graph(
        node=f'fx.node "aten.einsum.default"({quoted(text)}, []) : () -> !fx.none'
    ),
    "device": lambda text: graph(
        node=f'fx.node "mylib.op.default"(#fx.device<{quoted(text)}>) : () -> !fx.none'
    ),
    "keyword": lambda text: graph(
        node=f'"fx.node"() <{{target = "mylib.op.default", args = [1], kwarg_names = [{quoted(text)}]}}> : () -> !fx.none'
    ),
    "size": lambda text: graph(
        node=f'fx.node "mylib.op.default"(#fx.sym<{quoted(text)}>) : () -> !fx.none'
    ),
    "attribute": lambda text: graph(
        node=f"%a = fx.node get_attr {quoted(text)}() : () -> tensor<4xf32>"
    ),
}


@pytest.mark.parametrize("field", PROGRAM_TEXTS)
def test_no_text_of_a_graph_becomes_code(field: str, tmp_path: Path) -> None:
    form = PROGRAM_TEXTS[field]
    benign = program(tmp_path / "benign.mlir", form("plain"))
    for number, text in enumerate(TEXTS):
        written = program(tmp_path / f"{number}.mlir", form(text))
        if written is not None:
            assert benign is not None, f"{field}: {text!r} is taken, and a plain word is not"
            assert_same_code(written, benign)


@pytest.mark.parametrize("field", ["name", "title", "explanation"])
def test_no_text_of_a_script_becomes_code(field: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    source = tmp_path / "folder" / "s.mlir"
    source.write_text(script(**{field: quoted("plain")}))
    for number, text in enumerate(["plain", *TEXTS]):
        source.write_text(script(**{field: quoted(text)}))
        entry = {"file": "s.mlir", "name": "r", field: text}
        (tmp_path / "folder" / "rewrites.json").write_text(json.dumps({"rewrites": [entry]}))
        if "\x00" in text:
            with pytest.raises(OpprofError, match="has what is no character"):
                read_rewrites(tmp_path / "folder")
            continue
        scripts = read_rewrites(tmp_path / "folder").scripts
        files = emit(scripts, tmp_path / f"out{number}.py", model=text)
        if number == 0:
            benign = [file.read_text() for file in files]
        for file, plain in zip(files, benign, strict=True):
            assert_same_code(file.read_text(), plain)


_RELU = 'fx.node "aten.relu.default"(%x) : (!x) -> !x'


def rewriting(
    *,
    type: str = 'tensor<2x8xf32, #fx.tensor<"cpu">>',
    node: str = _RELU,
    name: str = "pattern",
    head: str = "",
    more: str = "",
) -> str:
    """A script whose pattern and replacement are one node, of one type."""
    graphs = "".join(
        f"fx.graph private @{own}(%x: !x) -> !x {{\n  %0 = {node}\n  fx.output(%0) : (!x)\n}}\n"
        for own in (name, "other")
    )
    return f"""!x = {type}
module attributes {{transform.with_named_sequence, fx.rewrite = {{name = "r"{head}}}}} {{
{graphs}  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
    transform.fx.replace_subgraph %root, @{name} -> @other : !transform.any_op
    {more}
    transform.yield
  }}
}}
"""


def strategy(options: str) -> str:
    return rewriting(more=f"transform.fx.region_strategy %root {{{options}}} : !transform.any_op")


SCRIPT_TEXTS: dict[str, Callable[[str], str]] = {
    "device": lambda text: rewriting(type=f"tensor<2x8xf32, #fx.tensor<{quoted(text)}>>"),
    "layout": lambda text: rewriting(
        type=f'tensor<2x8xf32, #fx.tensor<"cpu", layout = {quoted(text)}>>'
    ),
    "subclass": lambda text: rewriting(
        type=f'tensor<2x8xf32, #fx.tensor<"cpu", subclass = {quoted(text)}>>'
    ),
    "size": lambda text: rewriting(
        type=f'tensor<?x8xf32, #fx.tensor<"cpu", unknown_strides, dims = [#fx.sym<{quoted(text)}>, 8]>>'
    ),
    "constant": lambda text: rewriting(
        node=f'fx.node "aten.mul.Scalar"(%x, #fx.any<{quoted(text)}>) : (!x) -> !x'
    ),
    "size as an argument": lambda text: rewriting(
        node=f'fx.node "aten.view.default"(%x, [#fx.sym<{quoted(text)}>, 8]) : (!x) -> !x'
    ),
    "argument": lambda text: rewriting(
        node=f'fx.node "aten.einsum.default"({quoted(text)}, [%x]) : (!x) -> !x'
    ),
    "device as an argument": lambda text: rewriting(
        node=f'fx.node "aten.to.device"(%x, #fx.device<{quoted(text)}>, #fx.dtype<"float32">) : (!x) -> !x'
    ),
    "graph": lambda text: rewriting(name=quoted(text)),
    "location": lambda text: rewriting(node=f"{_RELU} loc({quoted(text)})"),
    "finding": lambda text: rewriting(head=f", finding = {quoted(text)}"),
    "another field": lambda text: rewriting(head=f", {quoted(text)} = {quoted(text)}"),
    "class": lambda text: strategy(f'regions = {{{quoted(text)} = "float16"}}'),
}


@pytest.mark.parametrize("field", SCRIPT_TEXTS)
def test_no_text_of_a_rewrite_becomes_code(field: str, tmp_path: Path) -> None:
    form = SCRIPT_TEXTS[field]
    benign = rewrite(tmp_path / "benign.mlir", form("n"))
    assert benign is not None
    for number, text in enumerate(TEXTS):
        written = rewrite(tmp_path / f"{number}.mlir", form(text))
        if written is not None:
            assert_same_code(written, benign)


@pytest.mark.parametrize(
    "name", ['a"b.py', "a'b.py", 'a"""b.py', "a\\b.py", "a\nopen(1).py", "é ü.py"]
)
def test_no_file_name_becomes_code(name: str, tmp_path: Path) -> None:
    benign = emit([], tmp_path / "plain.py")
    for file, plain in zip(emit([], tmp_path / name), benign, strict=True):
        assert_same_code(file.read_text(), plain.read_text())


@pytest.mark.parametrize("target", FUNCTIONS)
def test_no_function_but_those_of_the_table_is_called(target: str, tmp_path: Path) -> None:
    node = f'fx.node {quoted(target)}("PWNED") : () -> !fx.none'
    assert program(tmp_path / "g.mlir", graph(node=node)) is None
    assert rewrite(tmp_path / "s.mlir", script(node=node)) is None
    reference = f'fx.node "higher_order.cond"(#fx.op<{quoted(target)}>) : () -> !fx.none'
    assert program(tmp_path / "r.mlir", graph(node=reference)) is None


def test_no_other_method_attribute_or_name_of_torch_is_reached(tmp_path: Path) -> None:
    value = "(tensor<4xf32>) -> !fx.none"

    def method(name: str) -> str:
        return f'fx.node call_method {quoted(name)}(%x, "PWNED") : {value}'

    def attribute(name: str) -> str:
        return f'fx.node "getattr"(%x, {quoted(name)}) : {value}'

    def constant(kind: str) -> Callable[[str], str]:
        return lambda name: (
            f'fx.node "mylib.op.default"(#fx.{kind}<{quoted(name)}>) : () -> !fx.none'
        )

    forms: list[tuple[Callable[[str], str], list[str], str]] = [
        (method, METHODS, "view"),
        (attribute, ATTRIBUTES, "shape"),
        (constant("dtype"), CONSTANTS, "float8_e5m2"),
        (constant("layout"), CONSTANTS, "strided"),
        (constant("memory_format"), CONSTANTS, "channels_last"),
    ]
    source = tmp_path / "g.mlir"
    for form, names, known in forms:
        assert program(source, graph(node=form(known))) is not None, form(known)
        for name in names:
            assert program(source, graph(node=form(name))) is None, name
    for node in (
        f'fx.node "builtins.getattr"(%x, "__class__", 1) : {value}',
        'fx.node "getattr"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> !fx.none',
    ):
        assert program(source, graph(node=node)) is None, node


@pytest.mark.parametrize("place", ["parent", "absolute", "link", "linked_folder"])
def test_an_index_stays_in_its_folder(place: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (other / "x.mlir").write_text(script())
    file = {
        "parent": "../other/x.mlir",
        "absolute": str(other / "x.mlir"),
        "link": "x.mlir",
        "linked_folder": "inner/x.mlir",
    }[place]
    if place == "link":
        (folder / "x.mlir").symlink_to(other / "x.mlir")
    (folder / "inner").symlink_to(other)
    (folder / "rewrites.json").write_text(
        json.dumps({"rewrites": [{"file": file, "name": "x", "title": "t"}]})
    )
    with pytest.raises(OpprofError, match="leaves the folder"):
        emit_backend(folder, tmp_path / "out.py", None)
    assert not (tmp_path / "out.py").exists()


TEXT_TAKERS = [
    'fx.node "image.write_file"({}, %x) : (tensor<4xf32>) -> !fx.none',
    'fx.node "image.read_file.default"([{}, 2]) : () -> !fx.none',
    'fx.node "mylib.op.default"({}) : () -> !fx.none',
    'fx.node "higher_order.auto_functionalized"(#fx.op<"image.write_file.default">, {}) : () -> !fx.none',
    '"fx.node"() <{{target = "image.write_file.default", args = [{}], kwarg_names = ["filename"]}}> : () -> !fx.none',
]


@pytest.mark.parametrize("form", TEXT_TAKERS)
def test_no_unknown_operator_gets_text(form: str, tmp_path: Path) -> None:
    source = tmp_path / "g.mlir"
    assert program(source, graph(node=form.format("1"))) is not None
    assert program(source, graph(node=form.format('"PWNED"'))) is None
    assert rewrite(source, script(node=form.format('"PWNED"'))) is None


@pytest.mark.parametrize("function", ["operator.add", "operator.concat", "builtins.max"])
def test_no_function_hands_text_on_to_an_unknown_operator(function: str, tmp_path: Path) -> None:
    source = tmp_path / "g.mlir"
    call = f'%text = fx.node "{function}"({{}}, 2) : () -> !fx.any\n'
    hand_on = '  fx.node "image.read_file.default"(%text) : (!fx.any) -> !fx.none'
    assert program(source, graph(node=call.format("1") + hand_on)) is not None
    assert program(source, graph(node=call.format('"PWNED"'))) is not None
    assert program(source, graph(node=call.format('"PWNED"') + hand_on)) is None
    # What a rewrite leaves may stand before any operator of the model.
    assert rewrite(source, script(node=call.format("1"))) is not None
    assert rewrite(source, script(node=call.format('"PWNED"'))) is None


ALLOWED = [
    "torch._C._nn.gelu",
    "torch._C._nn.scaled_dot_product_attention",
    "torch._C._fft.fft_rfft",
    "torch._C._linalg.linalg_norm",
    "torch._C._set_grad_enabled",
    "torch.amp.autocast_mode._enter_autocast",
    "torch.nn.functional.interpolate",
    "torch.functional.einsum",
    "torch.functional.split",
    "torch._lowrank.svd_lowrank",
    "torch.relu",
    "torch.sym_max",
    "aten.random.from",
    "mylib.forms.default",
    "mylib.forms",
    "_c10d_functional.all_reduce.default",
    "higher_order.cond",
    "operator.iadd",
    "math.ceil",
    "builtins.max",
    "len",
]


@pytest.mark.parametrize("target", ALLOWED)
def test_what_graphs_of_pytorch_call_can_be_called(target: str, tmp_path: Path) -> None:
    node = f'fx.node "{target}"(1) : () -> !fx.none'
    written = program(tmp_path / "g.mlir", graph(node=node))
    assert written is not None
    ast.parse(written)

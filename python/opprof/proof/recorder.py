"""Runs a wrapper that Inductor generated, and records what each of its calls reads and writes. Needs PyTorch."""

import ast
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from opprof.errors import OpprofError

#: Calls that only make room, or another view of it.
_ALLOCATES = ("empty_strided", "alloc_from_pool", "torch.empty", "rand_strided")
_QUIET = (
    *(
        "assert_",
        "reinterpret_tensor",
        "as_strided",
        "print",
        "torch.cuda.",
        "get_raw_stream",
        "len",
    ),
    *("args.clear", "run_intermediate_hooks", "workspace_", "device_interface"),
)
#: What fresh memory holds until it is written: numbers that nothing computes.
_FRESH = -77.3125


@dataclass
class Tensor:
    """A tensor that a statement names, as it was before or after."""

    name: str
    value: torch.Tensor
    storage: int
    #: Of what was written: the elements, where not all of them were.
    part: bool = False


@dataclass
class Execution:
    """One statement as it was run."""

    line: int
    #: Lines of the calls that led there, outermost first.
    call_lines: tuple[int, ...]
    function: str
    text: str
    reads: list[Tensor] = field(default_factory=list)
    writes: list[Tensor] = field(default_factory=list)
    #: What the storages that were written hold as a whole now, under every name that the statement has for them.
    holds: list[Tensor] = field(default_factory=list)
    #: What storages that were written in part held before: it is in what they hold now.
    beneath: list[Tensor] = field(default_factory=list)
    #: What was there before, was written over, and shows in nothing that was written: scratch, or what a kernel takes a constant of.
    replaced: list[Tensor] = field(default_factory=list)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage of a tensor."""
    room = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return room.set_(tensor.untyped_storage())


def _on(storage: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The tensor `like` on other bytes."""
    room = torch.empty(0, dtype=like.dtype, device=like.device)
    return room.set_(storage.untyped_storage(), like.storage_offset(), like.size(), like.stride())


def _has_storage(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.untyped_storage().nbytes() > 0
    )


def _flatten(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if _has_storage(value):
        yield name, value
    elif isinstance(value, (tuple, list)):
        for position, element in enumerate(value):
            yield from _flatten(f"{name}[{position}]", element)


class Recorder:
    """Stands in the wrapper as `__proof__`, and is told before and after each statement that may launch something."""

    def __init__(self) -> None:
        self.on_execution: Callable[[Execution], None] = lambda _: None
        self.branch: Callable[[Any], bool] = bool
        #: Where loops are left in any case, and by loop how often it went round since it was entered.
        self.rounds: int | None = None
        self.turns: dict[int, int] = {}
        self.file = ""
        self.statements: list[_Statement] = []
        self.pending: list[tuple[int, dict[str, Any]]] = []
        #: Storages that something has been written to.
        self.written: set[int] = set()
        #: What was allocated stays, so that no storage takes the place of another.
        self.kept: list[torch.Tensor] = []
        self.known: set[int] = set()
        #: Storages of the graph's inputs.
        self.given: set[int] = set()

    def begin(
        self,
        on_execution: Callable[[Execution], None],
        branch: Callable[[Any], bool],
        inputs: Sequence[Any],
        rounds: int | None = None,
    ) -> None:
        """A run begins: `on_execution` is told of every call, `branch` decides conditionals, and no loop runs more than `rounds` times."""
        self.on_execution, self.branch = on_execution, branch
        self.rounds, self.turns = rounds, {}
        self.pending, self.written, self.kept, self.known = [], set(), [], set()
        for _, tensor in _flatten("", list(inputs)):
            self.written.add(_storage(tensor))
            self._keep(tensor)
        self.given = set(self.known)

    def _keep(self, tensor: torch.Tensor) -> None:
        self.kept.append(tensor)
        self.known.add(_storage(tensor))

    def goes_on(self, loop: int, value: Any) -> bool:
        """Whether a loop runs another round."""
        turn = self.turns.pop(loop, 0)
        if not bool(value) or turn == self.rounds:
            return False
        self.turns[loop] = turn + 1
        return True

    def fresh(self, value: Any) -> None:
        """Memory was allocated: it is filled with what nothing computes."""
        for _, tensor in _flatten("", value):
            self._keep(tensor)
            whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
                tensor.untyped_storage()
            )
            if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
                whole.fill_(_FRESH)
            else:
                whole.fill_(1)

    def before(self, index: int, names: Mapping[str, Any]) -> None:
        statement = self.statements[index]
        seen: dict[int, torch.Tensor] = {}
        named = list(statement.tensors(names))
        for _, tensor in named:
            if _storage(tensor) not in seen:
                seen[_storage(tensor)] = _bytes(tensor).clone()
        random = torch.random.get_rng_state()
        state = {"named": named, "bytes": seen, "names": dict(names), "random": random}
        self.pending.append((index, state))

    def after(self, index: int, names: Mapping[str, Any]) -> None:
        begun, state = self.pending.pop()
        assert begun == index
        statement = self.statements[index]
        frame = sys._getframe(1)
        lines = []
        caller = frame.f_back
        while caller is not None:
            if caller.f_code.co_filename == self.file and caller.f_code.co_name != "<module>":
                lines.append(caller.f_lineno)
            caller = caller.f_back
        execution = Execution(
            statement.line, tuple(reversed(lines)), frame.f_code.co_name, statement.text
        )
        self._compare(statement, state, names, execution)
        if execution.writes or statement.is_call_of_tensors(state["named"]):
            self.on_execution(execution)

    def _compare(
        self,
        statement: "_Statement",
        state: dict[str, Any],
        names: Mapping[str, Any],
        execution: Execution,
    ) -> None:
        before: dict[int, torch.Tensor] = state["bytes"]
        named: list[tuple[str, torch.Tensor]] = state["named"]
        by_storage: dict[int, list[tuple[str, torch.Tensor]]] = {}
        for name, tensor in named:
            by_storage.setdefault(_storage(tensor), []).append((name, tensor))
        written: dict[int, torch.Tensor] = {}
        unread: set[int] = set()
        for storage, tensors in by_storage.items():
            now = _bytes(tensors[0][1])
            changed = now != before[storage]
            mask = _by_element(changed, tensors[0][1].element_size())
            known = storage in self.written
            if known and not bool(mask.any()):
                continue
            read = False
            # Some of what was written may be what was there before.
            if known or not bool(mask.all()):
                read, more = self._again(statement, state, names, storage)
                mask = mask | more
            if not known or not read:
                unread.add(storage)
            if bool(mask.any()):
                written[storage] = mask
        if not written and not statement.targets:
            # What it wrote is what was there: only other numbers show where.
            for storage in by_storage:
                read, mask = self._again(statement, state, names, storage)
                if bool(mask.any()):
                    written[storage] = mask
                    if not read:
                        unread.add(storage)
        for name, tensor in named:
            storage = _storage(tensor)
            earlier = Tensor(name, _on(before[storage], tensor), storage)
            # All of an input may be replaced, part by part, by what is put into it: it is no node's value that could be had otherwise.
            if storage not in unread or (storage in self.given and storage in before):
                execution.reads.append(earlier)
            elif storage in self.written:
                execution.replaced.append(earlier)
            if storage in self.written and storage in written and not written[storage].all():
                execution.beneath.append(earlier)
        for storage, mask in written.items():
            self._describe_writes(by_storage[storage], storage, mask, execution)
            self.written.add(storage)
        for name, value in statement.results(names):
            storage = _storage(value)
            if storage not in before and storage not in self.known:
                self._keep(value)
                self.written.add(storage)
                kept = _on(_bytes(value).clone(), value)
                execution.writes.append(Tensor(name, kept, storage))
                execution.holds.append(Tensor(name, kept, storage))

    def _describe_writes(
        self,
        tensors: list[tuple[str, torch.Tensor]],
        storage: int,
        mask: torch.Tensor,
        execution: Execution,
    ) -> None:
        copy = _bytes(tensors[0][1]).clone()
        partly = True
        for name, tensor in tensors:
            value = _on(copy, tensor)
            execution.holds.append(Tensor(name, value, storage))
            if bool(mask.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).all()):
                execution.writes.append(Tensor(name, value, storage))
                partly = False
        if partly:
            name, tensor = tensors[0]
            elements = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
                copy.untyped_storage()
            )
            execution.writes.append(Tensor(name, elements[mask[: elements.numel()]], storage, True))
        # Under a slice's name nothing shows that the whole is complete now.
        whole = torch.empty(0, dtype=tensors[0][1].dtype, device=tensors[0][1].device)
        execution.holds.append(Tensor("", whole.set_(copy.untyped_storage()), storage))

    def _again(
        self, statement: "_Statement", state: dict[str, Any], names: Mapping[str, Any], storage: int
    ) -> tuple[bool, torch.Tensor]:
        """Whether what `storage` held went into what was written, and which of its elements were: runs the statement on copies, with
        other numbers in that storage."""
        named: list[tuple[str, torch.Tensor]] = state["named"]
        copies = {s: b.clone() for s, b in state["bytes"].items()}
        first = next(tensor for _, tensor in named if _storage(tensor) == storage)
        other = torch.empty(0, dtype=first.dtype, device=first.device).set_(
            copies[storage].untyped_storage()
        )
        _disturb(other)
        disturbed = copies[storage].clone()
        local = {name: _replace(value, copies) for name, value in state["names"].items()}
        constants = {
            name: _replace(value, copies) for name, value in statement.module_tensors.items()
        }
        random = torch.random.get_rng_state()
        torch.random.set_rng_state(state["random"])
        try:
            exec(statement.code, {**statement.module, **constants}, local)
        except Exception:
            # It checks what it is given: so it reads it.
            return True, torch.zeros_like(_by_element(disturbed != disturbed, first.element_size()))
        finally:
            torch.random.set_rng_state(random)
        size = first.element_size()
        mask = _by_element(copies[storage] != disturbed, size)
        read = False
        for other_storage, value in copies.items():
            tensor = next(t for _, t in named if _storage(t) == other_storage)
            now = _bytes(tensor)
            if other_storage == storage:
                unequal = _by_element(now != value, size) & mask
                read = read or bool(unequal.any())
            else:
                read = read or not torch.equal(now, value)
        for name, value in statement.results(names):
            again = dict(statement.results(local)).get(name)
            if again is not None and _storage(value) not in state["bytes"]:
                read = read or not torch.equal(value, again)
        return read, mask


def _by_element(changed: torch.Tensor, size: int) -> torch.Tensor:
    count = changed.numel() // size
    return changed[: count * size].reshape(count, size).any(dim=1)


def _disturb(values: torch.Tensor) -> None:
    if values.dtype.is_floating_point:
        values.copy_(values.float() * -0.6875 + 0.3125)
    elif values.dtype.is_complex:
        values.copy_(values * -0.6875 + 0.3125)
    elif values.dtype == torch.bool:
        values.logical_not_()
    else:
        values.bitwise_xor_(1)


def _replace(value: Any, copies: Mapping[int, torch.Tensor]) -> Any:
    if _has_storage(value):
        copy = copies.get(_storage(value))
        return value if copy is None else _on(copy, value)
    if isinstance(value, list):
        return [_replace(element, copies) for element in value]
    if type(value) is tuple:
        return tuple(_replace(element, copies) for element in value)
    return value


@dataclass
class _Statement:
    """A statement of the wrapper that may launch something."""

    line: int
    text: str
    names: list[str]
    targets: list[str]
    code: types.CodeType
    module: dict[str, Any] = field(default_factory=dict)

    @property
    def module_tensors(self) -> dict[str, Any]:
        found = {name: self.module.get(name) for name in self.names}
        return {name: value for name, value in found.items() if list(_flatten(name, value))}

    def tensors(self, local: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
        for name in self.names:
            value = local[name] if name in local else self.module.get(name)
            yield from _flatten(name, value)

    def results(self, local: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
        for name in self.targets:
            yield from _flatten(name, local.get(name))

    def is_call_of_tensors(self, named: Sequence[Any]) -> bool:
        return bool(named) and any(
            word in self.text for word in ("extern_kernels.", "torch.ops.", "aten.", "_fused_")
        )


class _Instrument(ast.NodeTransformer):
    """Puts the recorder's calls round the statements of functions, and lets it decide branches and the end of loops."""

    def __init__(self, functions: set[str]):
        self.functions = functions
        self.statements: list[tuple[ast.stmt, ast.Call]] = []
        self.loops = 0
        self.depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.name in ("get_args", "benchmark_compiled_module", "recursively_apply_fns"):
            return node
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        if self.depth and self._only_copies(node):
            node.test = ast.copy_location(ast.Constant(True), node.test)
            return node
        if self.depth and self._names_subgraph(node):
            call = ast.parse("__proof__.branch(x)", mode="eval").body
            assert isinstance(call, ast.Call)
            call.args = [node.test]
            node.test = ast.copy_location(call, node.test)
        return node

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        if self.depth:
            call = ast.parse(f"__proof__.goes_on({self.loops}, x)", mode="eval").body
            assert isinstance(call, ast.Call)
            call.args[1] = node.test
            node.test = ast.copy_location(call, node.test)
            ast.copy_location(call.args[0], node.test)
            self.loops += 1
        return node

    def _only_copies(self, node: ast.If) -> bool:
        """Before a loop that does not run at all, its results are copies of what goes in: these may be made in any case."""
        calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
        return (
            not node.orelse
            and any(_is_clone(call) for call in calls)
            and all(_is_clone(call) or _is_told(call) for call in calls)
        )

    def _names_subgraph(self, node: ast.If) -> bool:
        return bool(node.orelse) and any(
            isinstance(inner, ast.Name) and inner.id in self.functions for inner in ast.walk(node)
        )

    def _statement(self, node: ast.Assign | ast.Expr | ast.AugAssign) -> Any:
        if not self.depth or not isinstance(node.value, ast.Call):
            return node
        callee = ast.unparse(node.value.func)
        if callee.startswith(_ALLOCATES) or callee.startswith(_QUIET):
            if callee.startswith(_ALLOCATES) and isinstance(node, ast.Assign):
                return [node, _told(f"__proof__.fresh({ast.unparse(node.targets[0])})", node)]
            return node
        if callee.split(".")[0] in self.functions or "partitions" in callee:
            return node
        index = len(self.statements)
        self.statements.append((node, node.value))
        return [
            _told(f"__proof__.before({index}, locals())", node),
            node,
            _told(f"__proof__.after({index}, locals())", node),
        ]

    visit_Assign = visit_Expr = visit_AugAssign = _statement


def _is_clone(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "clone" and not call.args


def _is_told(call: ast.Call) -> bool:
    return ast.unparse(call).startswith(("__proof__.", "locals("))


def _told(text: str, where: ast.stmt) -> ast.stmt:
    statement = ast.parse(text).body[0]
    for node in ast.walk(statement):
        ast.copy_location(node, where)
    return statement


def load(path: Path, recorder: Recorder) -> dict[str, Any]:
    """Runs the module of generated code, with the recorder in it. Its kernels are compiled, or taken from Inductor's cache."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source, str(path))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    instrument = _Instrument(functions)
    tree = ast.fix_missing_locations(instrument.visit(tree))
    recorder.file = str(path)
    name = "opprof_compiled_code"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    module.__dict__["__proof__"] = recorder
    for node, call in instrument.statements:
        code = compile(ast.Module([node], []), str(path), "exec")
        named = [n.id for n in ast.walk(call) if isinstance(n, ast.Name)]
        targets: list[str] = []
        if isinstance(node, ast.Assign):
            targets = [
                n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)
            ]
        recorder.statements.append(
            _Statement(
                node.lineno,
                ast.unparse(call.func),
                list(dict.fromkeys(named)),
                targets,
                code,
                module.__dict__,
            )
        )
    sys.modules[name] = module
    exec(compile(tree, str(path), "exec"), module.__dict__)
    if not callable(module.__dict__.get("call")):
        raise OpprofError(f"{path}: defines no call(), so it is no wrapper that can be run")
    return module.__dict__

"""Records the operators of one step of a program as a graph: graph JSON, and beside it what that does not hold.

A dispatch mode below autograd sees each operator of forward, backward and optimizer on the threads that the step runs on, runs it, and notes it.
Tensors are known by their storage and their place in it, and none is kept alive: what holds a gradient or an activation for longer
would change what autograd does. Nothing draws random numbers. What goes wrong here ends the recording, and not the program.

Nothing of opprof can be imported here; export/graph_values.py is read by its path.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import linecache
import os
import re
import sys
import sysconfig
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any

#: What is said of a value: enough to draw others like it.
_MOST_SAMPLED = 1 << 22
#: Smaller ones of whole numbers are kept as they are: shapes, positions, switches.
_MOST_KEPT = 64

_MOST_NODES = 500_000
_MOST_CALLS = 200_000
_MOST_FRAMES = 12

#: What gives memory that nothing has been written to.
_UNWRITTEN = {
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty")
} | {"aten::new_empty_strided"}

#: Ranges of the profiler's are no operators.
_NO_OPERATORS = ("profiler", "debugprims", "prim")


# Dataclasses look their module up among the loaded ones, of which this is none.
class _Input:
    """What the step takes from before it."""

    def __init__(
        self, name: str, kind: int, key: tuple[Any, ...], statistics: dict[str, Any]
    ) -> None:
        #: `type` is a place in the table of types.
        self.name, self.type, self.key, self.statistics = name, kind, key, statistics


class _Node:
    """An operator that ran."""

    def __init__(
        self, entry: dict[str, Any], call: int, phase: str, with_gradients: bool, is_part: bool
    ) -> None:
        self.entry, self.call, self.phase = entry, call, phase
        self.with_gradients = with_gradients
        #: Taken apart of another one's results, and left out where nothing asks for it.
        self.is_part = is_part


class _Call:
    """A call of a module."""

    def __init__(
        self, number: int, module: Any, path: str, caller: _Call | None, in_backward: bool
    ) -> None:
        self.number, self.module, self.path = number, module, path
        self.caller = caller.number if caller else None
        self.in_backward = in_backward
        self.entry: dict[str, Any] = {}
        #: It and those round it, and their place in the table of modules.
        self.chain: list[dict[str, str]] = []
        self.modules: int | None = None


class _Thread(threading.local):
    """What of the step a thread is in."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        #: What runs now is no operator of the step's own.
        self.hidden = 0
        self.sequence = -1


def say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"opprof: {text}", file=sys.stderr)


_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Files of these folders are not the user's, nor are those of the standard library, but for packages installed below it.
_HIDDEN = [os.path.join(_OWN, "")]
_STANDARD = os.path.join(sysconfig.get_paths()["stdlib"], "")


def hide_files(folder: str) -> None:
    """Files of this folder are not the user's either."""
    _HIDDEN.append(os.path.join(folder, ""))


@functools.lru_cache(maxsize=10_000)
def _is_users(file: str) -> bool:
    if file.startswith(("<", *_HIDDEN)):
        return False
    return not file.startswith(_STANDARD) or "/site-packages/" in file


def _user_frames() -> Iterator[FrameType]:
    """The frames of this thread that are the program's, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def user_place() -> tuple[str, int]:
    for frame in _user_frames():
        return frame.f_code.co_filename, frame.f_lineno
    return "", 0


class StepGraph:
    """One step."""

    def __init__(
        self, torch: ModuleType, values: ModuleType, files: dict[str, str], step: int, kind: str
    ) -> None:
        self.torch, self.values, self.files = torch, values, files
        self.step, self.kind = step, kind
        self.is_on = False
        self.in_optimizer = False
        self.lock = threading.RLock()
        self.thread = _Thread()
        self.folder = os.getcwd()
        self.types, self.stacks, self.modules = values.Table(), values.Table(), values.Table()
        self.stack_of: dict[tuple[Any, ...], int | None] = {}
        self.inputs: list[_Input] = []
        self.nodes: list[_Node] = []
        self.calls: list[_Call] = []
        self.names: dict[str, int] = {}
        #: The value that was last seen at a place of a storage.
        self.known: dict[tuple[Any, ...], str] = {}
        #: A weak reference to each storage that was met: as long as it is there, no other storage has its address.
        self.storages: dict[int, Any] = {}
        #: Those that were made in the step, with the value that they were made for.
        self.made: dict[int, tuple[str, Any]] = {}
        self.input_names: set[str] = set()
        #: What operators changed in place of an input, and that input.
        self.same_place: dict[str, str] = {}
        self.hidden_views: list[str] = []
        #: What tensors are like that modules are called with, of those that the step made.
        self.arguments: dict[str, dict[str, Any]] = {}
        #: Those of inputs.
        self.taken: set[int] = set()
        #: Those that nothing has been written to yet.
        self.unwritten: set[int] = set()
        #: The same of the places of what was detached from its history.
        self.detached: dict[tuple[Any, ...], str] = {}
        #: The value of each tensor: two may lie at one place. What is dead may have left its number to another.
        self.tensors: dict[int, tuple[weakref.ref[Any], str]] = {}
        self.roots: dict[int, str] = {}
        self.paths: dict[int, dict[int, str]] = {}
        #: The names of weights, by their places.
        self.weights: dict[tuple[Any, ...], list[tuple[str, str, bool]]] = {}
        #: The nodes that an autograd node's forward ran, by its number; None where two threads had one of that number.
        self.forward: dict[int, tuple[int, int | None, int | None] | None] = {}
        self.notes: dict[str, None] = {}
        self.opaque: list[dict[str, Any]] = []
        self.foreign: list[dict[str, Any]] = []
        self.wrapped: list[Any] = []
        self.restores: list[Callable[[], None]] = []
        self.mode = _make_mode(torch, self)

    # Begin and end.

    def start(self) -> None:
        """Sees the operators of this thread, and of what it has other threads do, from now on."""
        say(f"recording the graph of {self.title()}")
        self.began = time.monotonic()
        from torch.utils import _python_dispatch

        self.dispatch = _python_dispatch
        self._follow_modules()
        self.follow_compiled()
        self.thread.sequence = self.torch.autograd._get_sequence_nr() - 1
        # Not by the with statement, which has Dynamo compile nothing as long as it lasts.
        _python_dispatch._push_mode(self.mode)
        self.is_on = True

    def stop(self) -> None:
        """Sees no more; what the program pushed over the mode stays."""
        self.is_on = False
        for restore in self.restores:
            restore()
        over = []
        while self.torch._C._len_torch_dispatch_stack():
            mode = self.dispatch._pop_mode()
            if mode is self.mode:
                break
            over.append(mode)
        for mode in reversed(over):
            self.dispatch._push_mode(mode)

    def title(self) -> str:
        if self.kind == "step":
            return f"step {self.step}"
        return f"call {self.step} of a module"

    def fail(self, error: Exception) -> None:
        """Ends the recording for a reason of its own."""
        if self.is_on:
            self.is_on = False
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            line = f" (line {place.tb_lineno})" if place is not None else ""
            self.note(f"what followed is not here: {type(error).__name__}: {error}{line}")
            say(f"the graph ends here: {type(error).__name__}: {error}{line}")

    def note(self, text: str) -> None:
        self.notes.setdefault(text)

    def _name(self, wanted: str) -> str:
        wanted = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "value"
        if wanted[0].isdigit():
            wanted = f"_{wanted}"
        while True:
            count = self.names.get(wanted, 0)
            self.names[wanted] = count + 1
            if not count:
                return wanted
            numbered = f"{wanted}_{count}"
            if numbered not in self.names:
                self.names[numbered] = 1
                return numbered

    # Values.

    def key(self, tensor: Any) -> tuple[Any, ...]:
        """What a tensor is known by: its storage and place in it."""
        torch = self.torch
        if tensor.layout is torch.strided and not self._is_wrapper(tensor):
            storage = self._storage(tensor)
            flags = (tensor.is_conj(), tensor.is_neg())
            place = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
            return storage, tensor.dtype, *place, *flags
        return "object", id(tensor)

    def _storage(self, tensor: Any) -> int:
        from torch.multiprocessing.reductions import StorageWeakRef

        reference = StorageWeakRef(tensor.untyped_storage())
        number: int = reference.cdata
        if number not in self.storages:
            self.storages[number] = reference
        return number

    def _is_wrapper(self, tensor: Any) -> bool:
        """True for a tensor that holds others, and has no memory of its own."""
        kind = type(tensor)
        return (
            kind is not self.torch.Tensor
            and "__torch_dispatch__" in dir(kind)
            and (kind.__torch_dispatch__ is not self.torch.Tensor.__torch_dispatch__)
        )

    def reference(self, tensor: Any) -> str:
        """The value that a tensor is; one that nothing in the step made is an input."""
        own = self.tensors.get(id(tensor))
        if own is not None and own[0]() is tensor:
            return own[1]
        key = self.key(tensor)
        name = None
        if key[0] != "object":
            # What was detached lies where it did before, and has no gradient.
            name = None if tensor.requires_grad else self.detached.get(key)
            name = name or self.known.get(key)
        if name is None:
            name = self._hidden_view(tensor, key) or self._add_input(tensor, key)
            self.known[key] = name
        self.tensors[id(tensor)] = weakref.ref(tensor), name
        return name

    def _hidden_view(self, tensor: Any, key: tuple[Any, ...]) -> str | None:
        """A view that was made without an operator, as one."""
        made = self.made.get(key[0])
        if made is None:
            return None
        base, dtype = made
        if dtype != tensor.dtype or key[-1] or key[-2]:
            self.note(f"a value of {base} as {tensor.dtype} was made without an operator")
            return None
        name = self._name("as_strided")
        shape, stride = list(tensor.shape), list(tensor.stride())
        entry = {
            "name": name,
            "op": "call_function",
            "target": "aten.as_strided.default",
            "args": [{"node": base}, shape, stride, tensor.storage_offset()],
            "kwargs": {},
            "type": self.types.add(self.values.value_type(tensor, self.types)),
        }
        self._append(entry, is_part=True)
        self.hidden_views.append(name)
        return name

    def _add_input(self, tensor: Any, key: tuple[Any, ...]) -> str:
        names = self.weights.get(key)
        kind = self.types.add(self.values.value_type(tensor, self.types))
        if names:
            path, what, _ = names[0]
            prefix = "p" if what == "parameter" else "b"
            name = self._name(f"{prefix}_{path.partition('.')[2].lower() or path}")
        else:
            name = self._name("input")
        self.taken.add(key[0])
        self.input_names.add(name)
        self.inputs.append(_Input(name, kind, key, self._statistics(tensor)))
        return name

    def _statistics(self, tensor: Any) -> dict[str, Any]:
        torch = self.torch
        is_plain = (
            tensor.layout is torch.strided
            and not self._is_wrapper(tensor)
            and tensor.device.type != "meta"
            and not tensor.is_quantized
            and tensor.numel()
        )
        if not is_plain or (
            tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        ):
            return {}
        self.thread.hidden += 1
        try:
            with torch.no_grad():
                return statistics(torch, tensor.detach())
        except Exception as error:
            return {"none": f"{type(error).__name__}: {error}"[:200]}
        finally:
            self.thread.hidden -= 1

    def refer(self, value: Any, part: Callable[[Any], Any] | None = None) -> Any:
        """A tensor as the value that it is, and a dataclass as its fields, which `part` refers to."""
        if isinstance(value, self.torch.Tensor):
            return {"node": self.reference(value)}
        if dataclasses.is_dataclass(value) and not isinstance(value, (type, dict, tuple)):
            fields = [(f.name, getattr(value, f.name, None)) for f in dataclasses.fields(value)]
            part = part or self.refer
            return {"dict": [[key, self.values.argument(v, part)] for key, v in fields]}
        return None

    def refer_argument(self, value: Any) -> Any:
        """The same for what a module is called with, which others like it will be made of."""
        own = self.refer(value, self.refer_argument)
        if own is not None and "node" in own:
            name = own["node"]
            if name not in self.input_names and name not in self.arguments:
                self.arguments[name] = {"statistics": self._statistics(value)}
        return own

    def _refer_result(self, call: _Call, value: Any) -> Any:
        """The same for what a module gives: what nothing has written to so far, no operator of the call's did."""
        own = self.refer(value, functools.partial(self._refer_result, call))
        if own is not None and "node" in own and self.key(value)[0] in self.unwritten:
            call.entry.setdefault("unwritten", []).append(own["node"])
        return own

    # Operators.

    def is_hidden(self) -> bool:
        return not self.is_on or self.thread.hidden > 0

    def begin(self, function: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        """What an operator is called with, before it may change that."""
        if getattr(function, "namespace", "") in _NO_OPERATORS or self._is_traced(args, kwargs):
            return None
        with self.lock:
            if len(self.nodes) >= _MOST_NODES:
                raise MemoryError(f"the step has more than {_MOST_NODES} operators")
            sequence, stack, modules = self._place()
            self._check_written(function, args, kwargs)
            entry = {
                "op": "call_function",
                "target": self.values.target_name(function),
                "args": [self.values.argument(value, self.refer) for value in args],
                "kwargs": {k: self.values.argument(v, self.refer) for k, v in kwargs.items()},
            }
            for key, number in (("stack", stack), ("modules", modules)):
                if number is not None:
                    entry[key] = number
            if sequence is not None:
                entry["seq_nr"] = sequence
            return entry

    def end(self, entry: dict[str, Any], function: Any, result: Any) -> None:
        """Notes the operator, and what it gave."""
        with self.lock:
            if not self.is_on:
                return
            name = getattr(function, "_opname", None) or entry["target"].rpartition(".")[2]
            name = self._name(str(name))
            ordered = {"name": name, **entry}
            ordered["type"] = self.types.add(self.values.value_type(result, self.types))
            self._append(ordered)
            self._know(result, name, function)

    def _append(self, entry: dict[str, Any], *, is_part: bool = False) -> None:
        calls = self.thread.calls
        phase = "optimizer" if self.in_optimizer else "forward"
        if self.torch._C._current_graph_task_id() != -1:
            phase = "backward"
        number = calls[-1].number if calls else -1
        grad = self.torch.is_grad_enabled()
        self.nodes.append(_Node(entry, number, phase, grad, is_part))

    def _know(self, result: Any, name: str, function: Any) -> None:
        """Ties tensors of a result to the value, or to parts of it."""
        if isinstance(result, self.torch.Tensor):
            self.tensors[id(result)] = weakref.ref(result), name
            key = self.key(result)
            storage = key[0]
            if storage == "object":
                return
            operator = getattr(function, "_name", "").partition(".")[0]
            # An operator that gives out what it took made no storage.
            if storage not in self.made and storage not in self.taken:
                self.made[storage] = (name, result.dtype)
                if operator in _UNWRITTEN and result.numel():
                    self.unwritten.add(storage)
            if operator == "aten::detach":
                self.detached[key] = name
            elif key not in self.known or _writes(function):
                before = self.known.get(key)
                if before in self.input_names:
                    self.same_place[name] = before
                elif before in self.same_place:
                    self.same_place[name] = self.same_place[before]
                self.known[key] = name
                self.detached.pop(key, None)
        elif isinstance(result, (tuple, list)):
            for index, part in enumerate(result):
                if isinstance(part, (self.torch.Tensor, tuple, list)):
                    own = self._name("getitem")
                    entry = {
                        "name": own,
                        "op": "call_function",
                        "target": "operator.getitem",
                        "args": [{"node": name}, index],
                        "kwargs": {},
                        "type": self.types.add(self.values.value_type(part, self.types)),
                    }
                    last = self.nodes[-1].entry
                    entry.update({k: last[k] for k in ("stack", "modules") if k in last})
                    self._append(entry, is_part=True)
                    self._know(part, own, function)

    def _check_written(self, function: Any, args: Any, kwargs: Any) -> None:
        """Finds memory that is read though no operator wrote it: what did is not in the graph."""
        if not self.unwritten or getattr(function, "_schema", None) is None:
            return
        schema = function._schema.arguments
        given = [*zip(schema, args, strict=False)]
        given += [(a, kwargs[a.name]) for a in schema if a.name in kwargs]
        for argument, value in given:
            tensors = value if isinstance(value, (list, tuple)) else [value]
            for tensor in tensors:
                if not isinstance(tensor, self.torch.Tensor) or tensor.layout != self.torch.strided:
                    continue
                key = self.key(tensor)
                if key[0] not in self.unwritten:
                    continue
                alias = argument.alias_info
                if (alias is not None and not alias.is_write) or function._opname in _LOOKING:
                    continue
                # Where it counts for nothing, as in `torch.empty(…).baddbmm(a, b, beta=0)`, it is not read.
                is_read = alias is None or _adds_to(function)
                if argument.name == "self" and any(a.name == "beta" and b == 0 for a, b in given):
                    if alias is None:
                        continue
                    is_read = False
                self.unwritten.discard(key[0])
                if is_read:
                    self.foreign.append(
                        {
                            "value": self.known.get(key, ""),
                            "base": self.made[key[0]][0],
                            "reader": len(self.nodes),
                        }
                    )

    def _is_traced(self, args: Any, kwargs: Any) -> bool:
        """Whether it is a tracer's, and computes nothing."""
        fake = sys.modules.get("torch._subclasses.fake_tensor")
        if fake is None:
            return False
        return any(isinstance(value, fake.FakeTensor) for value in (*args, *kwargs.values()))

    # Where it is.

    def _place(self) -> tuple[int | None, int | None, int | None]:
        """Autograd's sequence number, the lines, and the modules of what runs now."""
        thread, torch = self.thread, self.torch
        calls = thread.calls
        node = torch._C._current_autograd_node()
        if node is not None and not (calls and calls[-1].in_backward):
            sequence = node._sequence_nr()
            found = self.forward.get(sequence)
            if found is not None:
                return sequence, found[1], found[2]
            return sequence if sequence < 1 << 62 else None, self._stack(), None
        stack, modules = self._stack(), calls[-1].modules if calls else None
        if not torch.is_grad_enabled():
            return None, stack, modules
        # An operator that autograd follows has taken a number before it runs.
        latest = torch.autograd._get_sequence_nr() - 1
        if latest <= thread.sequence:
            return None, stack, modules
        thread.sequence = latest
        own = threading.get_ident()
        known = self.forward.get(latest)
        is_one = latest not in self.forward or (known is not None and known[0] == own)
        self.forward[latest] = (own, stack, modules) if is_one else None
        return latest, stack, modules

    def _stack(self) -> int | None:
        frames = []
        for frame in _user_frames():
            frames.append((frame.f_code, frame.f_lineno))
            if len(frames) == _MOST_FRAMES:
                break
        key = tuple(frames)
        if key not in self.stack_of:
            entries = [self._frame(code, line) for code, line in reversed(frames)]
            self.stack_of[key] = self.stacks.add(entries) if entries else None
        return self.stack_of[key]

    def _frame(self, code: Any, line: int) -> dict[str, Any]:
        file = code.co_filename
        entry = {
            "file": self.values.short_path(os.path.abspath(file), self.folder),
            "line": line,
            "function": code.co_name,
        }
        text = linecache.getline(file, line).strip()
        if text:
            entry["code"] = text[:400]
        return entry

    # Modules.

    def _follow_modules(self) -> None:
        kind = self.torch.nn.Module
        original = kind.__call__

        def call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            entry = self._enter(module, args, kwargs)
            try:
                result = original(module, *args, **kwargs)
            except BaseException:
                self._leave(entry, None, failed=True)
                raise
            self._leave(entry, result)
            return result

        def patch() -> None:
            # Not over what the program has put there.
            if kind.__call__ is original:
                kind.__call__ = call

        def restore() -> None:
            if kind.__call__ is call:
                kind.__call__ = original

        patch()
        self.restores.append(restore)
        self.pause, self.resume = restore, patch

    def _enter(self, module: Any, args: Any, kwargs: Any) -> _Call | None:
        if self.is_hidden():
            return None
        try:
            with self.lock:
                return self._add_call(module, args, kwargs)
        except Exception as error:
            self.fail(error)
            return None

    def _add_call(self, module: Any, args: Any, kwargs: Any) -> _Call:
        if len(self.calls) >= _MOST_CALLS:
            raise MemoryError(f"the step has more than {_MOST_CALLS} calls of modules")
        calls = self.thread.calls
        caller = calls[-1] if calls else None
        path = self._path(module, caller)
        in_backward = self.torch._C._current_graph_task_id() != -1
        kind = self.values.type_name(type(module))
        call = _Call(len(self.calls), module, path, caller, in_backward)
        call.chain = [*(caller.chain if caller else []), {"path": path, "type": kind}]
        call.modules = self.modules.add(call.chain)
        call.entry = {
            "module": path,
            "type": kind,
            "caller": call.caller,
            "training": bool(module.training),
            "in_backward": in_backward,
            "with_gradients": bool(self.torch.is_grad_enabled()),
            "begin": len(self.nodes),
            "args": [self.values.argument(value, self.refer_argument) for value in args],
            "kwargs": {k: self.values.argument(v, self.refer_argument) for k, v in kwargs.items()},
        }
        self.calls.append(call)
        calls.append(call)
        return call

    def _leave(self, call: _Call | None, result: Any, *, failed: bool = False) -> None:
        if call is None:
            return
        calls = self.thread.calls
        while calls and calls.pop() is not call:
            pass
        if self.is_hidden():
            return
        try:
            with self.lock:
                if failed:
                    call.entry["failed"] = True
                else:
                    refer = functools.partial(self._refer_result, call)
                    call.entry["result"] = self.values.argument(result, refer)
                call.entry["end"] = len(self.nodes)
        except Exception as error:
            self.fail(error)

    def _path(self, module: Any, caller: _Call | None) -> str:
        """The module's path below the outermost one, which is called by its class."""
        # What is computed again in backward is called from nowhere, and has the path of its first call.
        within = caller.path.partition(".")[0] if caller is not None else None
        for number, root in self.roots.items():
            if within in (None, root) and id(module) in self.paths[number]:
                below = self.paths[number][id(module)]
                return f"{root}.{below}" if below else root
        self._add_root(module)
        return self.roots[id(module)]

    def _add_root(self, module: Any) -> None:
        name = re.sub(r"\W", "_", type(module).__name__)
        taken = set(self.roots.values())
        numbered, number = name, 1
        while numbered in taken:
            number += 1
            numbered = f"{name}_{number}"
        self.roots[id(module)] = numbered
        self.paths[id(module)] = {id(part): path for path, part in module.named_modules()}
        self._name_weights(module, numbered)

    def _name_weights(self, module: Any, root: str) -> None:
        unsaved = {
            f"{path}.{name}" if path else name
            for path, part in module.named_modules()
            for name in getattr(part, "_non_persistent_buffers_set", ())
        }
        for what, named in (
            ("parameter", module.named_parameters(remove_duplicate=False)),
            ("buffer", module.named_buffers(remove_duplicate=False)),
        ):
            for path, tensor in named:
                # Parameters that have no shape yet.
                if type(tensor).__name__.startswith("Uninitialized"):
                    continue
                entry = (f"{root}.{path}", what, path not in unsaved)
                entries = self.weights.setdefault(self.key(tensor), [])
                if entry not in entries:
                    entries.append(entry)

    # What was compiled.

    def follow_compiled(self) -> None:
        """Puts one node in the place of what Inductor compiled, of which only some operators go through the dispatcher."""
        module = sys.modules.get("torch._inductor.output_code")
        for kind in [getattr(module, n, None) for n in ("CompiledFxGraph", "CompiledAOTI")]:
            if kind is not None and kind not in self.wrapped:
                self.wrapped.append(kind)
                self._wrap_compiled(kind)

    def _wrap_compiled(self, kind: Any) -> None:
        original = kind.__call__

        def call(graph: Any, inputs: Any, /, *args: Any, **kwargs: Any) -> Any:
            if self.is_hidden():
                return original(graph, inputs, *args, **kwargs)
            entry = None
            try:
                entry = self._begin_compiled(graph, inputs)
            except Exception as error:
                self.fail(error)
            self.thread.hidden += 1
            try:
                result = original(graph, inputs, *args, **kwargs)
            finally:
                self.thread.hidden -= 1
            if entry is not None and self.is_on:
                try:
                    self.end(entry, None, tuple(result) if isinstance(result, list) else result)
                except Exception as error:
                    self.fail(error)
            return result

        kind.__call__ = call

        def restore() -> None:
            if kind.__call__ is call:
                kind.__call__ = original

        self.restores.append(restore)

    def _begin_compiled(self, graph: Any, inputs: Any) -> dict[str, Any]:
        with self.lock:
            sequence, stack, modules = self._place()
            found = str(getattr(graph, "_fx_graph_cache_key", None) or "")
            is_backward = bool((getattr(graph, "fx_kwargs", None) or {}).get("is_backward"))
            entry: dict[str, Any] = {
                "op": "call_function",
                "target": "higher_order.compiled_region",
                "args": [found, *(self.values.argument(value, self.refer) for value in inputs)],
                "kwargs": {},
            }
            for key, number in (("stack", stack), ("modules", modules)):
                if number is not None:
                    entry[key] = number
            if sequence is not None:
                entry["seq_nr"] = sequence
            self.opaque.append({"node": len(self.nodes), "backward": is_backward, "code": found})
            return entry

    # The files.

    def write(self, *, is_whole: bool) -> None:
        """Writes the graph and what belongs to it; says so where it cannot."""
        try:
            with self.lock:
                for number, root in self.roots.items():
                    module = next((c.module for c in self.calls if id(c.module) == number), None)
                    if module is not None:
                        self._name_weights(module, root)
                self._write(is_whole)
        except Exception as error:
            say(f"the graph of {self.title()} cannot be written: {type(error).__name__}: {error}")

    def _write(self, is_whole: bool) -> None:
        kept = self._kept()
        seconds = time.monotonic() - self.began
        names = [node.entry["name"] for node in kept]
        results = [
            call.entry["result"]
            for call in self.calls
            if call.caller is None and not call.in_backward and "result" in call.entry
        ]
        # Places in the list of all nodes, to those in the list of what is kept.
        new_place, count = {}, 0
        alive = {id(node) for node in kept}
        for place, node in enumerate(self.nodes):
            new_place[place] = count
            count += id(node) in alive
        new_place[len(self.nodes)] = count
        for call in self.calls:
            for key in ("begin", "end"):
                if key in call.entry:
                    call.entry[key] = new_place[call.entry[key]]
        facts = {
            "opprof_step_version": 1,
            "producer": {"torch": str(self.torch.__version__)},
            "kind": self.kind,
            "number": self.step,
            "whole": is_whole and self.is_whole(),
            "seconds": round(seconds, 3),
            "notes": list(self.notes),
            "compiled": [
                {**entry, "node": names[new_place[entry["node"]]]}
                for entry in self.opaque
                if new_place[entry["node"]] < len(names)
            ],
            "foreign": [
                {**entry, "reader": names[new_place[entry["reader"]]]}
                for entry in self.foreign
                if new_place[entry["reader"]] < len(names)
            ],
            "nodes": {
                "call": [node.call for node in kept],
                "phase": "".join(node.phase[0] for node in kept),
                "grad": "".join("1" if node.with_gradients else "0" for node in kept),
            },
            "same_place": self.same_place,
            "hidden_views": self.hidden_views,
            "values": self.arguments,
            "inputs": {known.name: self._facts_of(known) for known in self.inputs},
            "calls": [call.entry for call in self.calls],
        }
        _replace(self.files["step"], [self.values.dumps(facts), "\n"])
        _replace(self.files["graph"], self._graph(kept, results))
        say(f"recorded the graph of {self.title()}: {len(kept)} operators in {seconds:.1f} s")
        if self.opaque:
            parts = f"{len(self.opaque)} part{'s' if len(self.opaque) > 1 else ''}"
            say(f"torch.compile compiled {parts} of it: each is one node, and not known inside")
        if self.foreign:
            readers = f"{len(self.foreign)} operator{'s' if len(self.foreign) > 1 else ''}"
            say(f"{readers} of it read what no operator of PyTorch's has written")

    def is_whole(self) -> bool:
        return not any(text.startswith("what followed") for text in self.notes)

    def _kept(self) -> list[_Node]:
        """All but parts that nothing asks for."""
        used: set[str] = set()
        for call in self.calls:
            for key in ("args", "kwargs", "result"):
                _collect(call.entry.get(key), used)
        kept = []
        for node in reversed(self.nodes):
            if node.is_part and node.entry["name"] not in used:
                continue
            kept.append(node)
            _collect(node.entry["args"], used)
            _collect(node.entry["kwargs"], used)
        return kept[::-1]

    def _facts_of(self, known: _Input) -> dict[str, Any]:
        facts: dict[str, Any] = {"statistics": known.statistics}
        names = [name for name, _, _ in self.weights.get(known.key, [])]
        if names:
            facts["names"] = names
        if known.key[0] != "object":
            facts["storage"] = [n.key[0] for n in self.inputs].index(known.key[0])
        return facts

    def _graph(self, kept: list[_Node], results: list[Any]) -> Iterator[str]:
        dumps = self.values.dumps
        producer = {"torch": str(self.torch.__version__), "opprof": ""}
        yield '{"opprof_graph_version": 1,\n "producer": ' + dumps(producer)
        tables = (("types", self.types), ("stacks", self.stacks), ("modules", self.modules))
        for key, table in tables:
            yield f',\n "{key}": [' + ",".join("\n  " + text for text in table.index) + "]"
        script = os.path.splitext(os.path.basename(sys.argv[0] or "program"))[0]
        head = {"name": re.sub(r"\W", "_", script) or "program", "stage": "recorded"}
        yield ',\n "graphs": [\n  ' + dumps(head)[:-1] + ',\n   "inputs": ['
        yield ",".join("\n    " + dumps(self._input(known)) for known in self.inputs)
        yield '],\n   "nodes": ['
        for position, node in enumerate(kept):
            yield ("," if position else "") + "\n    " + dumps(node.entry)
        used: set[str] = set()
        _collect(results, used)
        outputs = [{"value": {"node": name}, "kind": "user_output"} for name in sorted(used)]
        yield '],\n   "outputs": [' + ",".join("\n    " + dumps(o) for o in outputs) + "]"
        yield ',\n   "range_constraints": {}, "attributes": {}}]}\n'

    def _input(self, known: _Input) -> dict[str, Any]:
        entry = {"name": known.name, "type": known.type, "kind": "user_input"}
        names = self.weights.get(known.key)
        if names:
            path, what, is_saved = names[0]
            entry.update(kind=what, target=path)
            if not is_saved:
                entry["persistent"] = False
        return entry


#: Operators that look at a tensor without its numbers.
_LOOKING = (
    "detach",
    "alias",
    "empty_like",
    "zeros_like",
    "ones_like",
    "rand_like",
    "randn_like",
    "full_like",
)


#: Those in place that write without reading what there was, all of it or some.
_FILLING = frozenset(
    (
        *("copy_", "fill_", "zero_", "set_", "resize_", "resize_as_", "fill_diagonal_", "eye_"),
        *("normal_", "uniform_", "random_", "bernoulli_", "cauchy_", "exponential_", "geometric_"),
        *("log_normal_", "index_put_", "index_copy_", "index_fill_", "scatter_", "put_"),
        *("masked_fill_", "masked_scatter_", "detach_", "t_", "transpose_", "squeeze_"),
        *("unsqueeze_", "as_strided_", "swapaxes_", "swapdims_", "rename_"),
    )
)


def _adds_to(function: Any) -> bool:
    """Whether what an operator writes in place is computed of what was there, as by `add_`."""
    name = str(function._opname)
    is_in_place = name.endswith("_") and not name.startswith("_")
    return function.namespace == "aten" and is_in_place and name not in _FILLING


def _writes(function: Any) -> bool:
    """Whether what an operator gives is what it has changed."""
    schema = getattr(function, "_schema", None)
    return schema is None or any(
        r.alias_info is not None and r.alias_info.is_write for r in schema.returns
    )


def _collect(value: Any, names: set[str]) -> None:
    """The values that an argument names."""
    if isinstance(value, dict):
        if "node" in value and len(value) == 1:
            names.add(value["node"])
            return
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _collect(part, names)


def _replace(path: str, parts: Any) -> None:
    partial = f"{path}.new"
    with open(partial, "w", encoding="utf-8") as file:
        for part in parts:
            file.write(part)
    os.replace(partial, path)


def statistics(torch: ModuleType, tensor: Any) -> dict[str, Any]:
    """What the numbers of a tensor are like: `values` of few whole ones; `min`, `max` and share of `zeros`, and where the last dimension
    counts its `step`, or that it is `sorted`, of whole ones; `mean` and `std` beside these of floats, with the shares of the `lowest`
    and the `highest`, of the finite ones, and the shares of others. What an expanded dimension repeats counts once.
    """
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0:
            tensor = tensor.narrow(dimension, 0, 1)
    count = tensor.numel()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    is_whole = not tensor.is_floating_point()
    if count == 1 or (is_whole and count <= _MOST_KEPT):
        values = tensor.reshape(-1).tolist()
        return {"values": [v if v == v and abs(v) != float("inf") else str(v) for v in values]}
    facts: dict[str, Any] = {}
    if is_whole:
        numbers = tensor.to(torch.uint8) if tensor.dtype is torch.bool else tensor
        low, high = int(numbers.min()), int(numbers.max())
        facts.update(min=low, max=high)
        facts["zeros"] = 1.0 - float(torch.count_nonzero(numbers)) / numbers.numel()
        if tensor.dtype is not torch.bool and tensor.dim() and tensor.shape[-1] > 1:
            steps = tensor.diff(dim=-1)
            first = int(steps.reshape(-1)[0])
            # Differences wrap where numbers are unsigned.
            latter, former = tensor[..., 1:], tensor[..., :-1]
            starts = tensor.select(-1, 0)
            if bool((steps == first).all()) and bool((starts == starts.reshape(-1)[0]).all()):
                facts.update(start=int(starts.reshape(-1)[0]), step=first)
            elif bool((latter >= former).all()):
                facts["sorted"] = True
        return facts
    flat = tensor.reshape(-1)
    sample = flat[:: -(-flat.numel() // _MOST_SAMPLED)]
    wide = sample.to(torch.float64 if sample.dtype is torch.float64 else torch.float32)
    finite = wide[wide.isfinite()]
    total = wide.numel()
    if finite.numel() != total:
        for name, found in (
            ("nan", wide.isnan()),
            ("inf", wide == float("inf")),
            ("-inf", wide == float("-inf")),
        ):
            facts[name] = int(found.sum()) / total
    if finite.numel():
        std, mean = torch.std_mean(finite, correction=0)
        facts.update(
            mean=float(mean), std=float(std), min=float(finite.min()), max=float(finite.max())
        )
        facts["zeros"] = int((finite == 0).sum()) / total
        facts["lowest"] = int((finite == finite.min()).sum()) / total
        facts["highest"] = int((finite == finite.max()).sum()) / total
    return facts


def _make_mode(torch: ModuleType, graph: StepGraph) -> Any:
    """The mode, whose class can be made only where there is a PyTorch."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # What has Dynamo skip this method imports it.
            return "torch._dynamo" in sys.modules

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if graph.is_hidden():
                return func(*args, **kwargs)
            entry = None
            try:
                entry = graph.begin(func, args, kwargs)
            except Exception as error:
                graph.fail(error)
            result = func(*args, **kwargs)
            if entry is not None:
                try:
                    graph.end(entry, func, result)
                except Exception as error:
                    graph.fail(error)
            return result

    return Mode()

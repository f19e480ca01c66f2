"""The front: calls of a model that go to its program past Dynamo, where nothing that decides has changed."""

import abc
import copy
import math
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.autograd import forward_ad
from torch.utils import _pytree

from opprof.backend.emitted.backend import backend
from opprof.backend.emitted.program import Generation, Program, picker, recorder
from opprof.backend.emitted.status import note_front
from opprof.backend.emitted.watch import MODULE_STATE, Unknown, Watch, forward_of
from opprof.backend.emitted.weights import weight_watch

_guards = torch._C._dynamo.guards

# Asked in every call.
_count_function_modes = torch._C._len_torch_function_stack
_count_dispatch_modes = torch._C._len_torch_dispatch_stack
_tracing_state = torch._C._get_tracing_state
_functorch_level = torch._C._functorch.peek_interpreter_stack

# Arguments besides tensors whose values decide; all others are left to Dynamo.
_CONSTANTS = (type(None), bool, int, str, torch.dtype, torch.device)


def _flatten(value: Any, leaves: list[Any]) -> Any:
    """Appends the leaves of lists, tuples and dictionaries, and returns what was around them; None for a leaf."""
    kind = type(value)
    if kind is tuple or kind is list:
        return (kind, *[_flatten(element, leaves) for element in value])
    if kind is dict:
        return (kind, *value, *[_flatten(element, leaves) for element in value.values()])
    leaves.append(value)
    return None


class Signature:
    """What arguments have to be: their structure, the metadata of tensors, and the values of all else."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._count, self._names = len(args), tuple(kwargs)
        self.leaves: list[Any] = []
        self._structure = [_flatten(value, self.leaves) for value in (*args, *kwargs.values())]
        self._flat = not any(self._structure)
        tensors = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        others = [i for i in range(len(self.leaves)) if i not in set(tensors)]
        self._places = tensors
        self._pick_tensors, self._pick_others = picker(tensors), picker(others)
        self.tensors = list(self._pick_tensors(self.leaves))
        self._others = list(self._pick_others(self.leaves))
        self._kinds = list(map(type, self._others))
        self._guards = tensor_guards(self.tensors)

    @property
    def unfit(self) -> str:
        """Why it says too little, if it does."""
        if not set(self._kinds) <= set(_CONSTANTS):
            return "an argument is of a type of its own"
        if any(type(tensor) not in (torch.Tensor, nn.Parameter) for tensor in self.tensors):
            return "an argument is no plain tensor"
        if len(set(map(id, self.tensors))) < len(self.tensors):
            return "a tensor is given twice"
        return ""

    def accepts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any] | None:
        """The leaves of arguments that are like this, or None."""
        if len(args) != self._count or tuple(kwargs) != self._names:
            return None
        leaves: Sequence[Any] = (*args, *kwargs.values())
        if not self._flat:
            flat: list[Any] = []
            if [_flatten(value, flat) for value in leaves] != self._structure:
                return None
            leaves = flat
        tensors = self._pick_tensors(leaves)
        if not self._guards.check(*tensors):
            return None
        if self._others:
            others = list(self._pick_others(leaves))
            if list(map(type, others)) != self._kinds or others != self._others:
                return None
        if len(tensors) > 1 and len(set(map(id, tensors))) < len(tensors):
            return None
        return leaves

    def equals(self, other: "Signature") -> bool:
        """True where this accepts what `other`, which still has its arguments, was made of."""
        return (
            (self._count, self._names) == (other._count, other._names)
            and self._structure == other._structure
            and self._places == other._places
            and (self._kinds, self._others) == (other._kinds, other._others)
            and bool(self._guards.check(*other.tensors))
        )

    def forget(self) -> None:
        """Drops the arguments that it was made of."""
        self.leaves, self.tensors = [], []


def tensor_guards(tensors: Sequence[torch.Tensor]) -> Any:
    """Dynamo's check of the metadata of tensors, in one call."""
    return _guards.TensorGuards(
        *tensors,
        dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
        dynamic_dims_strides=[list(tensor.stride()) for tensor in tensors],
    )


class State:
    """What PyTorch's modes are: of gradients, inference, autocast, number formats, devices."""

    def __init__(self) -> None:
        self._global = _guards.GlobalStateGuard()
        self._inference = torch.is_inference_mode_enabled()

    @staticmethod
    def is_traced() -> bool:
        """True where somebody records operators, or runs others in their place or beside them, as vmap and forward-mode AD do."""
        return bool(
            _count_dispatch_modes()
            or _tracing_state()
            or _functorch_level() is not None
            # Compiled programs drop tangents.
            or forward_ad._current_level >= 0
        )

    @staticmethod
    def is_observed() -> bool:
        """True where a copy into a buffer of ours would be somebody else's affair too: recorded with the model, or refused."""
        return bool(_count_function_modes() or State.is_traced())

    def holds(self) -> bool:
        return (
            torch.is_inference_mode_enabled() is self._inference
            and self._global.check()
            and not self.is_observed()
        )


class Shortcut:
    """One program, and what has to hold for a call of the model to be a call of it."""

    def __init__(
        self,
        signature: Signature,
        watch: Watch,
        run: tuple[Program, Sequence[Any], Sequence[Any]],
        result: Any,
        model: nn.Module,
    ) -> None:
        self.signature, self.watch, self.state = signature, watch, State()
        self.program, inputs, outputs = run
        leaves = {id(leaf): i for i, leaf in enumerate(signature.leaves)}
        own = {id(value) for value in [*model.parameters(), *model.buffers()]}
        if own & set(leaves):
            raise Unknown("an argument is a weight of the model")
        self._held = [value for value in inputs if id(value) not in leaves]
        count = len(signature.leaves)
        places = {id(value): count + i for i, value in enumerate(self._held)} | leaves
        positions = [places[id(value)] for value in inputs]
        self._pick_inputs = picker(positions)
        data = self.program.pick_data(positions)
        self._pick_data = picker(data)
        # Of a model of many weights, what holds them all takes as long to make as the arguments take to look at.
        self._held_data = [] if max(data, default=0) < count else self._held
        self._weights = self.program.pick_weights(inputs)
        self._read = self.program.pick_read(inputs)
        if any(id(value) in leaves for value in self._weights):
            raise Unknown("an argument is a parameter that something was made of")
        self._generation: Generation | None = None
        fixed = {id(value): value for value in [*self._held, *watch.tensors]}
        self._fixed = [value for key, value in fixed.items() if key not in leaves]
        self._metadata = tensor_guards(self._fixed)
        # Whether what was made of weights may say which places are taken of a table.
        self._asks_weights = False
        self._stopping, self._stopping_watch = self._find_stopping(inputs, own)
        self._stopping_metadata = tensor_guards(self._stopping or [])
        self._build = self._builder(result, outputs, leaves)
        # Whether the last call found PyTorch in another mode.
        self._doubts_modes = False

    def _find_stopping(
        self, inputs: Sequence[Any], weights: set[int]
    ) -> tuple[list[torch.Tensor] | None, Watch]:
        """The weights on which it depends whether a replay may stop the device, None where it cannot; and of what else that has to be
        looked at before one.
        """
        stopping = self.program.stopping
        if stopping is None:
            return None, self.watch
        known = {id(value) for value in self._fixed}
        reached = [inputs[i] for i in sorted(stopping.inputs)]
        read = set(map(id, self._read))
        self._asks_weights = not stopping.by_tables and not read.isdisjoint(map(id, reached))
        tables = [value for value in reached if id(value) in known]
        if not tables or not stopping.by_tables or not set(map(id, tables)) <= weights:
            return tables, self.watch
        # Which ids a table is given, a module decides that holds it, the model, a module without weights, or what their code reads
        # besides. Where another does (one with weights, none of them the table) that is seen after the replay: to look at all modules
        # before it costs a step that waits up to a millisecond, wherever other compiled programs run between two of its calls.
        return tables, self.watch.of_what_decides_on(tables)

    def _builder(
        self, result: Any, outputs: Sequence[Any], leaves: dict[int, int]
    ) -> Callable[[list[Any], Sequence[Any]], Any]:
        """What makes the model's result of the program's."""
        places = {id(v): i for i, v in enumerate(outputs) if isinstance(v, torch.Tensor)}
        parts, spec = _pytree.tree_flatten(result)
        sources: list[tuple[int, Any]] = []
        for part in parts:
            if id(part) in places:
                sources.append((0, places[id(part)]))
            elif isinstance(part, torch.Tensor) and id(part) in leaves:
                sources.append((1, leaves[id(part)]))
            elif part is None or any(part is value for value in self._fixed):
                sources.append((2, part))
            else:
                raise Unknown(f"the result holds a {type(part).__name__} that the graph does not")
        containers: list[Any] = []

        def see(value: Any) -> bool:
            containers.append(value)
            return False

        _pytree.tree_flatten(result, is_leaf=see)
        known = {id(part) for part in parts}
        if any(self.watch.knows(own) for own in containers if id(own) not in known):
            raise Unknown("the result holds an object that was there before")
        made = [id(own) for own in containers if id(own) not in known and type(own) is not tuple]
        if len(set(made)) < len(made):
            raise Unknown("the result holds an object twice")
        if len(sources) == 1 and sources[0][0] == 0 and parts[0] is result:
            position = sources[0][1]
            return lambda values, given: values[position]
        if all(kind == 0 for kind, _ in sources) and type(result) in (tuple, list):
            if all(own is part for own, part in zip(result, parts, strict=False)):
                pick, kind = picker([place for _, place in sources]), type(result)
                return lambda values, given: kind(pick(values))

        def build(values: list[Any], given: Sequence[Any]) -> Any:
            pools = (values, given)
            own = [part if kind == 2 else pools[kind][part] for kind, part in sources]
            return _pytree.tree_unflatten(own, spec)

        return build

    def _current(self) -> Generation | None:
        """What the program made of the weights, if they are as they were then."""
        generations = self.program.generations
        if self._generation not in generations:
            same = (g for g in generations if g.weights.are(self._weights))
            self._generation = next(same, None)
        own = self._generation
        if own is None or own.stale or weight_watch.checked_every:
            return None
        unchanged = not self._weights or own.weights.are_unchanged(self._weights, self._read)
        return own if unchanged else None

    def _holds(self) -> bool:
        """True where all that does not come with the call is as it was."""
        return bool(
            self.state.holds() and self.watch.holds() and self._metadata.check(*self._fixed)
        )

    def _is_safe(self) -> bool:
        """True where a replay can stop the device only if the model as it is would."""
        own = self._stopping
        if own is None:
            return True
        if own and not self._stopping_metadata.check(*own):
            return False
        return self._stopping_watch.holds()

    def _may_replay(self) -> bool:
        """What is looked at before a replay, which is little, as a step that waits waits for it too."""
        if self._doubts_modes or State.is_observed():
            # Each replay would be for nothing while they are others.
            holds = self.state.holds()
            self._doubts_modes = not holds
            if not holds:
                return False
        return self._is_safe()

    def call(self, leaves: Sequence[Any], *, hand_out: bool) -> tuple[bool, Any]:
        """Whether the program's result is the model's, and that."""
        program, data = self.program, (*leaves, *self._held_data)
        if program.strategy.cuda_graph:
            # It writes nothing but its own buffers otherwise: what decides is looked at while the GPU works.
            if not self._may_replay():
                return False, None
            values = self._replay(self._pick_data(data), hand_out)
            if not self._holds():
                self._doubts_modes = not self.state.holds()
                return False, None
            if values is None:
                values = program(*self._pick_inputs((*leaves, *self._held)))
        elif not self._holds():
            return False, None
        else:
            generation = self._current()
            if generation is None:
                values = program(*self._pick_inputs((*leaves, *self._held)))
            else:
                program.state.calls += 1
                values = program.run(generation, self._pick_data(data))
        return True, self._build(values, leaves)

    def _replay(self, data: Sequence[Any], hand_out: bool) -> list[Any] | None:
        """The results of the captured program; None where there is none, or where it is not of the weights as they are."""
        program = self.program
        with program.lock:
            own = self._generation
            if own is None or own.captured is None or own not in program.generations:
                self._current()
                return None
            if self._asks_weights and self._current() is None:
                return None
            # A capture that is kept is of PyTorch's modes as they are then.
            values = own.captured(data, self.state.holds if hand_out else None)
            if self._current() is None:
                return None
        program.state.calls += 1
        return values


class Noted:
    """What Dynamo does not look at again, as the model has it now: hooks, what classes compute, and where numbers are -0.0."""

    def __init__(self, model: nn.Module, *, watched: bool) -> None:
        modules = nn.modules.module
        self.hooks: list[Any] = [
            *getattr(modules, "_global_forward_hooks", {}).values(),
            *getattr(modules, "_global_forward_pre_hooks", {}).values(),
        ]
        self.watch = Watch(model, (), {}) if watched else None
        self.forwards: dict[type, Any] = {}
        zeros: set[Any] = set()
        # What holds numbers that change without the modules, each once.
        self.holders: dict[Any, Any] = {}
        seen: set[int] = set()
        for path, module in model.named_modules():
            function = forward_of(module)
            self.forwards[type(module)] = (function, getattr(function, "__code__", None))
            self.hooks += [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
            for name, value in vars(module).items():
                if _is_negative_zero(value):
                    zeros.add((path, name))
                elif name not in MODULE_STATE and id(value) not in seen and _parts(value):
                    seen.add(id(value))
                    self.holders[path, name] = value
        self.zeros = frozenset(zeros)


class Functions:
    """Functions of their own that call the model, for which Dynamo keeps what it compiles apart from that of other models.

    What it compiles after a break in the graph is of the model's own functions, where it tells backends apart and nothing else: `apart`
    gives these one too.
    """

    def __init__(self, model: nn.Module, zeros: frozenset[Any], *, apart: bool) -> None:
        def another(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            return backend(module, inputs)

        own = another if apart else backend
        self.zeros = zeros
        self.call = _calling(model)
        self.exact = torch.compile(self.call, backend=own, dynamic=False)
        self.any_shape = torch.compile(_calling(model), backend=own)


class Front:
    """Calls of one model: by a shortcut where one fits, by torch.compile where not, which may give a shortcut."""

    # Shapes that are compiled for themselves. What comes after them is compiled by torch.compile's own rules, for any shape.
    most_shapes = 6
    # Of the model between calls, after which no time is spent on telling that there are none.
    most_changes = 16

    def __init__(self, model: nn.Module, *, copies: bool) -> None:
        self.model = model
        self.copies = copies
        self.status = note_front(type(model).__name__)
        self._shortcuts: list[Shortcut] = []
        self._lock = threading.Lock()
        # What was found when the model was last looked at, and how often it was another then.
        self._noted: Noted | None = None
        self._changes = 0
        self._functions: dict[frozenset[Any], Functions] = {}
        # What classes were found to compute, and whether one has computed something else before.
        self._forwards: dict[type, Any] = {}
        self._apart = False
        self._shapes: set[Any] = set()
        # For calls of one kind: failures to learn of them in a row, and the call from which on it is tried again.
        self._tries: dict[Any, tuple[int, int]] = {}

    def _functions_for(self, leaves: list[Any]) -> "Functions | None":
        """What is compiled of the model as it is, for these arguments; None where zeros are negative in too many ways.

        Dynamo does not look at hooks again, once it has compiled a module, and takes 0.0 for -0.0: other ones are other functions.
        """
        with self._lock:
            noted = self._noted
            if noted is None or noted.watch is None or not noted.watch.holds():
                self._changes += 1
                # A model that writes its own attributes in each call is looked at each time.
                own = Noted(self.model, watched=self._changes < self.most_changes)
                if noted is not None and own.hooks != noted.hooks:
                    self._functions = {}
                if any(self._forwards.get(k, f) != f for k, f in own.forwards.items()):
                    self._functions, self._apart = {}, True
                self._forwards |= own.forwards
                self._noted = noted = own
            zeros = noted.zeros | _negative_zeros([leaves, noted.holders])
            if zeros not in self._functions:
                if len(self._functions) >= self.most_shapes:
                    self.status.unfit = f"zeros were negative in more than {self.most_shapes} ways"
                    return None
                apart = bool(noted.hooks or zeros or self._apart)
                self._functions[zeros] = Functions(self.model, zeros, apart=apart)
            return self._functions[zeros]

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.status.calls += 1
        for shortcut in self._shortcuts:
            leaves = shortcut.signature.accepts(args, kwargs)
            if leaves is not None:
                done, result = shortcut.call(leaves, hand_out=not self.copies)
                if done:
                    self.status.shortcuts += 1
                    return result
        return self._compiled(args, kwargs)

    def _compiled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call by torch.compile, and where it is worth trying what is learned of it."""
        if State.is_traced():
            return self.model(*args, **kwargs)
        leaves: list[Any] = []
        _flatten([args, kwargs], leaves)
        functions = self._functions_for(leaves)
        if functions is None:
            return self.model(*args, **kwargs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        shape = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in tensors)
        if shape not in self._shapes and len(self._shapes) >= self.most_shapes:
            return functions.any_shape(*args, **kwargs)
        self._shapes.add(shape)
        kind = (shape, torch.is_grad_enabled(), self.model.training, functions.zeros)
        failures, next_try = self._tries.get(kind, (0, 0))
        if self.status.calls < next_try or torch._C._len_torch_function_stack():
            return functions.exact(*args, **kwargs)
        signature, watch = Signature(args, kwargs), Watch(self.model, (), {})
        before, recorder.runs = recorder.runs, []
        try:
            result = functions.exact(*args, **kwargs)
            runs = recorder.runs
        finally:
            recorder.runs = before
        try:
            self._learn(functions.call, signature, runs, result, watch)
            self._tries.pop(kind, None)
        except Unknown as reason:
            self.status.unfit = str(reason)
            # Each try takes longer than a call.
            failures = min(failures + 1, 10)
            self._tries[kind] = (failures, self.status.calls + 2**failures)
        return result

    def _learn(
        self, function: Any, signature: Signature, runs: list[Any], result: Any, before: Watch
    ) -> None:
        """Makes the shortcut for calls like the one that gave the result, where it can be told what they depend on. `before` is the model
        as it was before the call.
        """
        if unfit := self._unfit(function, signature, runs):
            raise Unknown(unfit)
        reads = runs[0][0].origin.reads
        watch = Watch(self.model, reads, function.__globals__)
        shortcut = Shortcut(signature, watch, runs[0], result, self.model)
        # Asked last: what another thread changed meanwhile is in the new watch as if it had been so in the call.
        if not before.holds():
            raise Unknown("the model changed in the call")
        with self._lock:
            # Of those for the same arguments it is the newest that fits what was read.
            others = [s for s in self._shortcuts if not s.signature.equals(signature)]
            self._shortcuts = [shortcut, *others][: self.most_shapes]
        self.status.unfit = ""
        signature.forget()

    def _unfit(self, function: Any, signature: Signature, runs: list[Any]) -> str:
        if signature.unfit:
            return signature.unfit
        if len(runs) != 1:
            return f"{len(runs)} programs of this backend ran in one call"
        program = runs[0][0]
        if program.origin.code is not function.__code__:
            return "the graph is not that of the whole model"
        if program.written:
            return "the graph writes its inputs"
        return str(program.origin.unfit)


# What is looked into for -0.0: how deep, the two levels of what is asked included, of how many elements, and how many parts in all.
_DEEPEST, _LARGEST, _MOST_PARTS = 5, 1000, 20_000


def _is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1, value) < 0


def _negative_zeros(value: Any) -> frozenset[Any]:
    """Where a value, or a list, tuple, dictionary or object in it, is -0.0."""
    found: set[Any] = set()
    seen: set[int] = set()

    def visit(value: Any, place: tuple[Any, ...]) -> None:
        if _is_negative_zero(value):
            found.add(place)
        elif len(place) < _DEEPEST and id(value) not in seen and len(seen) < _MOST_PARTS:
            seen.add(id(value))
            for key, part in _parts(value, among=len(place) < 2):
                visit(part, (*place, key))

    visit(value, ())
    return frozenset(found)


def _parts(value: Any, *, among: bool = False) -> list[tuple[Any, Any]]:
    """What a container holds, or an object that may be a model's configuration; modules and tensors are looked at by themselves.

    Nothing of a large one, but where it is `among` what is asked.
    """
    parts: Any = value
    if not isinstance(value, (dict, list, tuple)):
        if isinstance(value, (nn.Module, torch.Tensor, type, types.ModuleType)) or callable(value):
            return []
        try:
            parts = getattr(value, "__dict__", None)
        except Exception:
            # Whatever a program's own property does: no guard reads it.
            return []
        if not isinstance(parts, dict):
            return []
    if len(parts) > _LARGEST and not among:
        return []
    return list(parts.items()) if isinstance(parts, dict) else list(enumerate(parts))


def _calling(model: nn.Module) -> Any:
    """A function that calls the model, with code of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    return types.FunctionType(
        call.__code__.replace(), call.__globals__, "call", None, call.__closure__
    )


class _Derived:
    """Comes before a model's class, whose `__init_subclass__` is not called."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        pass


def _slot_of(model: nn.Module, name: str) -> property:
    """The model's attribute in a slot, which is not in the dictionary that it shares."""
    return property(
        lambda _: getattr(model, name),
        lambda _, value: setattr(model, name, value),
        lambda _: delattr(model, name),
    )


def optimize(model: nn.Module, *, copies: bool = False) -> Any:
    """The model with this backend in front: a module of the same class that shares all with `model`, which stays as it is.

    On a GPU results lie in buffers that are used again once all references to them are dropped; one who drops them while another
    stream still reads asks for `copies`.
    """
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise TypeError(f"{type(model).__name__} is no torch.nn.Module of Python")
    front = Front(model, copies=copies)
    kind = type(model)
    members: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}

    def member(function: Callable[..., Any]) -> None:
        members[function.__name__] = function

    @member
    def __call__(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return model(*args, **kwargs)
        # A copy of this module, or one that got another class, is not what the front knows.
        if type(self) is not optimized or vars(self) is not vars(model):
            return kind.__call__(self, *args, **kwargs)
        return front(args, kwargs)

    @member
    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        return optimize(copy.deepcopy(model, memo), copies=copies)

    @member
    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        # A file holds the model, which needs no backend.
        return copy.copy, (model,)

    for base in kind.__mro__:
        for name, descriptor in vars(base).items():
            if isinstance(descriptor, types.MemberDescriptorType):
                members[name] = _slot_of(model, name)
    # What a metaclass or a base does when somebody derives from the class, asks for or keeps, is for classes of the program.
    metaclass: Any = abc.ABCMeta if isinstance(kind, abc.ABCMeta) else type
    optimized = metaclass.__new__(type(kind), kind.__name__, (_Derived, kind), members)
    result: Any = object.__new__(optimized)
    object.__setattr__(result, "__dict__", vars(model))
    return result

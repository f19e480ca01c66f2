"""What a traced function read besides its arguments, and whether that is as it was."""

import ast
import builtins
import copy
import dataclasses
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import getitem, is_
from typing import Any

import torch
from torch import nn

# A number that another one follows when the dictionary changes, where `_VERSIONS_TELL`; it is watched from the first time on.
_version_of: Callable[[dict[Any, Any]], int] = torch._C._dynamo.guards.dict_version


class _Holder:
    """An object whose attributes lie in itself, as those of modules do."""

    value = 0


def _changes_of(holder: _Holder, ordered: OrderedDict[str, int]) -> list[Callable[[], Any]]:
    """Each way of changing an object's attributes and an ordered dictionary, to be called one after the other."""
    own = vars(holder)

    def store() -> None:
        # From one place many times: Python finds a faster way then.
        holder.value += 1

    return [
        *[store] * 100,
        lambda: object.__setattr__(holder, "value", -1),
        lambda: own.update(value=-2),
        lambda: own.setdefault("another", -3),
        lambda: own.pop("another"),
        lambda: delattr(holder, "value"),
        lambda: own.__setitem__("value", -4),
        own.popitem,
        lambda: ordered.update(value=1),
        ordered.popitem,
        lambda: ordered.update({"value": 2}),
        ordered.clear,
        lambda: ordered.__ior__({"value": 3}),
        lambda: ordered.pop("value"),
        lambda: ordered.setdefault("value", 4),
    ]


def _versions_tell() -> bool:
    """Whether a dictionary has another version after each change, which stores to attributes leave as it is in Python 3.13.0."""
    holder, ordered = _Holder(), OrderedDict[str, int]()
    both = (vars(holder), ordered)
    versions = list(map(_version_of, both))
    for change in _changes_of(holder, ordered):
        change()
        before, versions = versions, list(map(_version_of, both))
        if versions == before:
            return False
    return True


_VERSIONS_TELL = _versions_tell()


class DictionaryChanges:
    """Tells in one step that no dictionary of this process that is watched has changed, however many they are.

    From Python 3.12 on `dict_version` counts the changes of all that were ever asked about, so a dictionary that is asked about for the
    first time gets the next number. Before, that number counts every change of any dictionary, and nothing follows from it. A plain
    dictionary that is empty may be filled unseen, as PyTorch does not count copies of a whole one.
    """

    def __init__(self) -> None:
        self._last = 0
        self._mark = object()

    def mark(self) -> object:
        """What is the same object as long as none has changed; of other threads' questions between two it may be another."""
        number = _version_of({})
        if number != self._last + 1:
            self._mark = object()
        self._last = number
        return self._mark

    def notices(self) -> bool:
        """Whether it sees each change, and takes nothing else for one."""
        holder, ordered, other = _Holder(), OrderedDict[str, int](), {"key": 0}
        for watched in (vars(holder), ordered):
            _version_of(watched)

        def seen(change: Callable[[], Any]) -> bool:
            before = self.mark()
            change()
            return self.mark() is not before

        return all(map(seen, _changes_of(holder, ordered))) and not seen(
            lambda: other.update(key=1)
        )


def _shared_changes() -> DictionaryChanges | None:
    """That of the process, as questions of several would look like changes to each; None where Python does not tell."""
    name = "_opprof_dictionaries"
    home: Any = sys.modules.setdefault(name, types.ModuleType(name))
    if not hasattr(home, "changes"):
        changes = DictionaryChanges()
        # What other threads change meanwhile is one more change.
        home.changes = changes if any(changes.notices() for _ in range(3)) else None
    own: DictionaryChanges | None = home.changes
    return own


_changes = _shared_changes()


class Contents:
    """What a dictionary has, where its version does not tell."""

    def __init__(self, own: dict[Any, Any]) -> None:
        self._own, self._keys, self._values = own, list(own), list(own.values())

    def are_the_same(self) -> bool:
        """True for the same objects under the same keys."""
        return list(self._own) == self._keys and all(map(is_, self._own.values(), self._values))


# As PyTorch before 2.12 names attributes that no `__getattr__` is asked for, and as it names those that are no identifiers.
_READING_BY_NAME = ("object.__getattribute__", "getattr")

# What has no parts, or none that can change.
_ATOMS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    frozenset,
    types.BuiltinFunctionType,
    types.CodeType,
    dataclasses.Field,
)


# What every module has, of which a part is dictionaries that guards look at.
MODULE_STATE = frozenset(vars(nn.Module()))

# What a call of a module looks at, of the dictionaries that every module has.
_DECISIVE = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")


class Unknown(Exception):
    """A place of which nothing tells whether it changes."""


class _Given:
    """What a call is given, which is looked at in each call."""


class _Absent:
    """An attribute that a guard looks for, and that is not there."""


_GIVEN, _ABSENT = _Given(), _Absent()


class Watch:
    """The dictionaries of a model's modules, and all else that guards look at, as it is now.

    While none of it changes, guards that held still hold.
    """

    def __init__(self, model: nn.Module, reads: Iterable[str], scope: dict[str, Any]) -> None:
        self._model, self._scope = model, scope
        self._dicts: dict[int, dict[Any, Any]] = {}
        # The modules that the dictionaries of modules are of, and modules by themselves.
        self._modules: dict[int, nn.Module] = {}
        # And sets, whose elements stay in their order while none comes or goes.
        self._lists: dict[int, list[Any] | set[Any]] = {}
        self._items: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}
        self._attributes: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        # Of objects and classes: what they hold is looked at where it is read, and here that nothing comes in or goes.
        self._key_owners: dict[int, Iterable[Any]] = {}
        # Attributes that are looked for, and are not there.
        self._missing: dict[tuple[int, str], tuple[Any, str]] = {}
        # What is given another class has other functions.
        self._typed: dict[int, Any] = {}
        self._values: dict[str, Any] = {}
        # What classes have: another object each time it is asked for, of which one is looked at.
        self._class_dicts: dict[type, Any] = {}
        # Tensors that are read, of which those that guards look at.
        self.tensors: list[torch.Tensor] = []
        modules = nn.modules.module
        for name in ("forward", "forward_pre"):
            self._watch_dict(getattr(modules, f"_global_{name}_hooks", {}))
        for module in model.modules():
            self._watch_module(module)
        for read in reads:
            self._source = read.strip()
            try:
                tree = ast.parse(self._source, mode="eval")
            except SystemError as error:
                # Of Python 3.11's, where several threads parse.
                raise Unknown(self._source) from error
            try:
                self._watch_parts(self._evaluate(tree.body))
            except Unknown as part:
                # Of what a guard reads, a part.
                said = self._source if str(part) == self._source else f"{self._source} ({part})"
                raise Unknown(f"nothing tells whether {said} changes") from None
        self._settle()

    def _settle(self) -> None:
        """What each call compares, in a form in which C does it."""
        dicts = list(self._dicts.values())
        empty = [d for d in dicts if not d]
        self._counted = [d for d in empty if _changes and type(d) is OrderedDict]
        self._empty = [d for d in empty if not _changes or type(d) is not OrderedDict]
        self._filled = [d for d in dicts if d]
        items, attributes = list(self._items.values()), list(self._attributes.values())
        self._item_owners = [owner for owner, _, _ in items]
        self._item_keys = [key for _, key, _ in items]
        self._attribute_owners = [owner for owner, _, _ in attributes]
        self._attribute_names = [name for _, name, _ in attributes]
        self._expected = [value for _, _, value in [*items, *attributes]]
        self._copies = [(own, tuple(own)) for own in self._lists.values()]
        self._keyed = list(self._key_owners.values())
        self._missing_owners = [owner for owner, _ in self._missing.values()]
        self._missing_names = [name for _, name in self._missing.values()]
        self._objects = list(self._typed.values())
        for own in self._counted:
            _version_of(own)
        self._versions = list(map(_version_of, self._filled))
        self._contents = [] if _VERSIONS_TELL else list(map(Contents, self._filled))
        self._was = self._states()
        self._mark: object | None = None
        self._values = {}

    def _states(self) -> list[Any]:
        """Classes of objects, and keys, in one list, as each list of its own takes a replay's time."""
        return [*map(type, self._objects), *map(list, self._keyed)]

    def holds(self) -> bool:
        """True where nothing has changed."""
        # Asked before anything is looked at: what changes meanwhile counts as a change in the next call.
        mark = _changes.mark() if _changes else None
        if mark is None or mark is not self._mark:
            # A model of hundreds of modules has thousands of dictionaries, which other programs drive out of the caches.
            if any(self._counted) or self._filled_differ():
                return False
            self._mark = mark
        if any(self._empty) or (self._states() != self._was and self._differ()):
            return False
        if self._missing_owners and any(map(hasattr, self._missing_owners, self._missing_names)):
            return False
        if self._expected:
            try:
                found = [
                    *map(getitem, self._item_owners, self._item_keys),
                    *map(getattr, self._attribute_owners, self._attribute_names),
                ]
            except (AttributeError, KeyError):
                return False
            if not all(map(is_, found, self._expected)):
                return False
        return not self._copies or all(
            len(own) == len(was) and all(map(is_, own, was)) for own, was in self._copies
        )

    def _filled_differ(self) -> bool:
        if self._contents:
            return not all(map(Contents.are_the_same, self._contents))
        return list(map(_version_of, self._filled)) != self._versions

    def _differ(self) -> bool:
        """True where more is different than the order of keys, which decides nothing."""
        count = len(self._objects)
        now, was = self._states(), self._was
        return now[:count] != was[:count] or any(
            frozenset(keys) != frozenset(before)
            for keys, before in zip(now[count:], was[count:], strict=True)
        )

    def of_what_decides_on(self, tensors: Sequence[torch.Tensor]) -> "Watch":
        """The same without what decides nothing of which places are taken of the tensors, nor whether any are, until somebody changes it:
        modules that hold none of them, themselves or in a module of theirs, but for the model and for those that hold no tensors at all and
        are none of PyTorch's for floats; what is PyTorch's own; what classes have besides, and the code of functions.
        """
        wanted = set(map(id, tensors))
        # Each once: a module stands under its dictionaries too.
        modules = {id(module): module for module in self._modules.values()}
        deciding = {id(self._model): self._model}
        for module in modules.values():
            held = set(map(id, chain(module.parameters(), module.buffers())))
            if held & wanted or not (held or _is_for_floats(module)):
                deciding[id(module)] = module

        def parts(decides: bool) -> set[int]:
            return {
                id(part)
                for module in modules.values()
                if (id(module) in deciding) is decides
                for part in (module, vars(module), *map(vars(module).get, MODULE_STATE))
            }

        others = parts(decides=False) - parts(decides=True)
        kinds = {id(type(module)) for module in deciding.values()}

        def counts(value: Any) -> bool:
            return id(value) not in others

        def attribute_counts(owner: Any, name: str) -> bool:
            if isinstance(owner, type) and name == "forward":
                return id(owner) in kinds
            return (
                counts(owner)
                and not _is_pytorch(getattr(owner, "__module__", None))
                and not (isinstance(owner, types.FunctionType) and name == "__code__")
            )

        own = copy.copy(self)
        own._dicts = {key: value for key, value in self._dicts.items() if counts(value)}
        own._typed = {key: value for key, value in self._typed.items() if counts(value)}
        own._key_owners = {
            key: value
            for key, value in self._key_owners.items()
            if not isinstance(value, types.MappingProxyType)
        }
        own._items = {
            place: item
            for place, item in self._items.items()
            if counts(item[0]) and not _is_of_libraries(*item)
        }
        own._attributes = {
            place: attribute
            for place, attribute in self._attributes.items()
            if attribute_counts(*attribute[:2])
        }
        own._missing = {
            place: (owner, name) for place, (owner, name) in self._missing.items() if counts(owner)
        }
        own._settle()
        # It is as of now.
        if not self.holds():
            raise Unknown("the model changed while it was looked at")
        return own

    def knows(self, container: Any) -> bool:
        """True for an object that something watched holds: it was there before the call."""
        return any(
            container is value for own in self._dicts.values() for value in own.values()
        ) or any(container is value for own in self._lists.values() for value in own)

    # What is watched

    def _watch_dict(self, value: dict[Any, Any]) -> None:
        self._dicts[id(value)] = value

    def _watch_module(self, module: nn.Module) -> None:
        own = vars(module)
        self._typed[id(module)] = self._modules[id(module)] = module
        kind, function = type(module), forward_of(module)
        if function is not None:
            self._attributes[id(kind), "forward"] = (kind, "forward", function)
            self._attributes[id(function), "__code__"] = (function, "__code__", function.__code__)
        if id(own) not in self._dicts:
            for value in (own, *map(own.get, _DECISIVE)):
                if isinstance(value, dict):
                    self._watch_dict(value)
                    self._modules[id(value)] = module

    def _watch_classes(self, value: Any) -> None:
        """The class of an object, and the attributes that its classes have, but for those of PyTorch and Python."""
        self._typed[id(value)] = value
        for kind in type(value).__mro__:
            if not _is_pytorch(kind.__module__):
                self._key_owners[id(kind)] = vars(kind)

    def _watch_parts(self, value: Any) -> None:
        """What a guard may have asked of the value: its elements, which attributes it has."""
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
        elif isinstance(value, nn.Module):
            self._watch_module(value)
            self._watch_classes(value)
        elif isinstance(value, dict):
            self._watch_dict(value)
        elif type(value) in (list, set):
            self._lists[id(value)] = value
        elif isinstance(value, types.MappingProxyType):
            self._key_owners[id(value)] = value
        elif isinstance(value, types.FunctionType):
            # Notebooks that load a file anew give functions other code.
            self._attributes[id(value), "__code__"] = (value, "__code__", value.__code__)
        elif isinstance(value, (tuple, types.ModuleType, types.MethodType)):
            pass
        elif isinstance(getattr(value, "__dict__", None), dict):
            self._key_owners[id(value)] = vars(value)
            self._watch_classes(value)
        elif _has_slots_alone(value):
            self._watch_classes(value)
            for kind in type(value).__mro__[:-1]:
                for name in _slots_of(kind):
                    self._attribute(value, name, self._source)
        elif (
            not isinstance(value, (*_ATOMS, _Given, _Absent))
            and type(value) is not object
            and not callable(value)
        ):
            raise Unknown(f"of type {type(value).__name__}")

    # What an expression of Dynamo's reads

    def _text(self, node: ast.expr) -> str:
        """What the expression is called: its own piece of the source where columns count characters, as to print trees takes longer
        than all else here.
        """
        if self._source.isascii() and "\n" not in self._source:
            return self._source[node.col_offset : node.end_col_offset]
        return ast.unparse(node)

    def _evaluate(self, node: ast.expr) -> Any:
        text = self._text(node)
        if text not in self._values:
            self._values[text] = self._read(node, text)
        return self._values[text]

    def _read(self, node: ast.expr, text: str) -> Any:
        if isinstance(node, ast.Subscript):
            if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "list":
                return self._key(node, text)
            if isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant):
                return self._root(node.value.id, node.slice.value, text)
            copied = _copied_dict(node.value)
            owner = self._evaluate(copied or node.value)
            if owner is _GIVEN:
                return _GIVEN
            return self._item(owner, self._key(node.slice, text), text)
        if isinstance(node, ast.Attribute):
            owner = self._evaluate(node.value)
            return _GIVEN if owner is _GIVEN else self._attribute(owner, node.attr, text)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict.__getitem__":
            owner = self._evaluate(node.args[0])
            return (
                _GIVEN
                if owner is _GIVEN
                else self._item(owner, self._key(node.args[1], text), text)
            )
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _READING_BY_NAME:
            owner, name = self._evaluate(node.args[0]), self._key(node.args[1], text)
            return _GIVEN if owner is _GIVEN else self._attribute(owner, name, text)
        if isinstance(node, ast.Call) and not node.args and not node.keywords:
            reference = self._evaluate(node.func)
            if type(reference) is weakref.ref:
                value = reference()
                # These live as long as the model has them, where another one in their place is noticed; what else there is may go at
                # any time.
                own = (*self._model.parameters(), *self._model.buffers())
                if any(value is one for one in own):
                    return value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            if node.func.id == "__import__":
                # The package, whatever module of it the name says.
                name = str(self._key(node.args[0], text)).partition(".")[0]
                return self._item(sys.modules, name, text)
            value = self._evaluate(node.args[0])
            if value is _GIVEN:
                return _GIVEN
            if node.func.id == "type":
                return type(value)
            if node.func.id == "dict" and isinstance(value, types.MappingProxyType):
                return value
        raise Unknown(text)

    def _root(self, scope: str, name: Any, text: str) -> Any:
        if scope == "L" and name == "model":
            return self._model
        if scope == "L" and name in ("args", "kwargs"):
            return _GIVEN
        if scope == "G" and name in self._scope:
            # Scripts assign to their globals all the time: what counts is this one.
            self._items[id(self._scope), name] = (self._scope, name, self._scope[name])
            return self._scope[name]
        raise Unknown(text)

    def _key(self, node: ast.expr, text: str) -> Any:
        try:
            if not isinstance(node, ast.Subscript):
                return ast.literal_eval(node)
            # list(dict.keys(…))[0], list(…)[0] of a set: the keys of what is watched, as they are now.
            keys = node.value.args[0]  # type: ignore[attr-defined]
            of_dict = isinstance(keys, ast.Call) and ast.unparse(keys.func) == "dict.keys"
            owner = self._evaluate(keys.args[0] if of_dict else keys)
            if of_dict or type(owner) in (set, frozenset):
                self._watch_parts(owner)
                return list(owner)[ast.literal_eval(node.slice)]
        except (ValueError, AttributeError, IndexError):
            pass
        raise Unknown(text)

    def _item(self, owner: Any, key: Any, text: str) -> Any:
        try:
            value = owner[key]
        except Exception:
            raise Unknown(text) from None
        if isinstance(owner, dict):
            shared = (vars(builtins), sys.modules, self._scope)
            if "__builtins__" in owner or any(owner is one for one in shared):
                self._items[id(owner), key] = (owner, key, value)
            else:
                self._watch_dict(owner)
        elif type(owner) is list:
            self._lists[id(owner)] = owner
        elif isinstance(owner, types.MappingProxyType):
            self._items[id(owner), key] = (owner, key, value)
        elif isinstance(owner, (nn.ModuleList, nn.Sequential)):
            self._watch_module(owner)
        elif not isinstance(owner, tuple):
            raise Unknown(text)
        return value

    def _attribute(self, owner: Any, name: str, text: str) -> Any:
        try:
            value = getattr(owner, name)
        except AttributeError:
            return self._absence(owner, name, text)
        if name == "__dict__" and isinstance(owner, type):
            return self._class_dicts.setdefault(owner, value)
        own = getattr(owner, "__dict__", None)
        if isinstance(owner, nn.Module) and _holds(owner, name):
            self._watch_module(owner)
        elif isinstance(own, dict) and name in own:
            # One attribute, as others may be written in every call.
            self._items[id(own), name] = (own, name, value)
        elif getattr(owner, name) is value:
            self._attributes[id(owner), name] = (owner, name, value)
        elif isinstance(value, types.MethodType) and value.__self__ is owner:
            # Bound anew each time it is read, of a function of the class.
            kind = type(owner)
            if not hasattr(kind, name):
                raise Unknown(text)
            self._attributes[id(kind), name] = (kind, name, getattr(kind, name))
        else:
            raise Unknown(text)
        return value

    def _absence(self, owner: Any, name: str, text: str) -> Any:
        """An attribute that is not there."""
        if owner is _ABSENT:
            raise Unknown(text)
        self._missing[id(owner), name] = (owner, name)
        return _ABSENT


# What is never given places of a table.
_FOR_FLOATS = tuple(f"torch.nn.modules.{kind}" for kind in ("activation", "dropout", "pooling"))


def _is_for_floats(module: nn.Module) -> bool:
    return type(module).__module__ in _FOR_FLOATS


def _is_pytorch(name: Any) -> bool:
    """Whether a module of that name is PyTorch's, or Python's own."""
    return isinstance(name, str) and name.partition(".")[0] in ("torch", "builtins")


def _slots_of(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _has_slots_alone(value: Any) -> bool:
    """True for an object whose classes, none of them written in C, say which attributes it has, by the names that they go by."""
    return all(
        "__slots__" in vars(kind) and not any(name.startswith("__") for name in _slots_of(kind))
        for kind in type(value).__mro__[:-1]
    )


def _is_of_libraries(owner: dict[Any, Any], key: Any, value: Any) -> bool:
    """Whether an item is PyTorch's own, or a module that another has imported."""
    if owner is sys.modules:
        return _is_pytorch(key)
    return isinstance(value, types.ModuleType) or _is_pytorch(owner.get("__name__"))


def forward_of(module: nn.Module) -> types.FunctionType | None:
    """What the module's class computes, which libraries replace; None where it is no function of Python."""
    function = getattr(type(module), "forward", None)
    return function if isinstance(function, types.FunctionType) else None


def _holds(module: nn.Module, name: str) -> bool:
    """True where the module itself has the attribute, and not its class."""
    own = vars(module)
    return name in own or any(name in own[kind] for kind in ("_parameters", "_buffers", "_modules"))


def _copied_dict(node: ast.expr) -> ast.expr | None:
    """What `dict(…)` copies."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return node.args[0] if len(node.args) == 1 else None
    return None

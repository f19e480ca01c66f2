"""Loads a model script: a Python file with `get_model_and_input() -> (module, input)`. Needs PyTorch.

The input is a tensor, a tuple or list of positional arguments, or a dict of keyword arguments. A script whose iteration is
more than a call of the module (a training step) also defines `make_step(module)`, which is handed the module, compiled or
not, and returns the function to call with the input. One that knows what other inputs are like (offsets, lengths, masks)
defines `get_inputs(seed)`, which returns one of the same form; without it they are made of the first one. What opprof writes of a
TorchScript archive has `archive_method(device)`, which returns what runs the archive itself there.
"""

import contextlib
import copy
import functools
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from opprof.errors import OpprofError, ProgramError
from opprof.export.fresh_inputs import Integers, find_integers, fresh
from opprof.files import check_script, check_source
from opprof.progress import progress

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class ModelScript:
    """A loaded script: the module, how it is called, and how one iteration is run."""

    path: Path
    name: str
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    make_step: Callable[[Any], Callable[..., Any]] | None = None
    # Inputs of a seed, where the script gives them.
    get_inputs: Callable[[int], Any] | None = None
    # Of what opprof made of a TorchScript archive: the archive's own method on a device, which takes the module's arguments.
    archive_method: Callable[[str], Callable[..., Any]] | None = None
    # Where the model was moved, if it was: --device.
    moved_to: str | None = None

    @property
    def device_type(self) -> str:
        """What the model and its inputs are on: "cuda" where any part of them is."""
        return _device_type(self.module, (self.args, self.kwargs))

    def inputs(self, seed: int) -> Inputs:
        """Other inputs for the same program: those that the script gives for the seed, or else its first ones, changed."""
        if self.get_inputs is None:
            made: Inputs = fresh((self.args, self.kwargs), seed, self._integers)
            return made
        with _running(self.path, f"get_inputs({seed}) failed"):
            value = self.get_inputs(seed)
        result = _arguments(value)
        if self.moved_to is not None:
            result = _moved(result, self.moved_to)
        _check_alike(self, result, seed)
        return result

    @functools.cached_property
    def _integers(self) -> Integers:
        original = (self.args, self.kwargs)

        def run(way: Integers) -> None:
            args, kwargs = fresh(original, 0, way)
            copy.deepcopy(self.module)(*args, **kwargs)

        if all(
            map(_is_same, tree_leaves(fresh(original, 0, Integers.SHUFFLED)), tree_leaves(original))
        ):
            return Integers.KEPT
        return find_integers(run)

    def step_of(self, module: Any) -> Callable[[], Any]:
        """One iteration of `module`, which is the script's module or a compiled form of it, as a function without arguments."""
        if self.make_step is not None:
            with _running(self.path, "make_step() failed"):
                step = self.make_step(module)
            if not callable(step):
                raise OpprofError(
                    f"{self.path}: make_step(module) returned a {type(step).__name__}, not the function that runs one step"
                )
            return lambda: step(*self.args, **self.kwargs)

        def forward() -> Any:
            with torch.set_grad_enabled(self.module.training):
                return module(*self.args, **self.kwargs)

        return forward


def import_script(path: Path) -> ModuleType:
    """Runs the script, but none of its functions."""
    check_script(path)
    check_source(path)
    # A script may be called like a module that is loaded already: json.py must not become everybody's json.
    name = f"opprof_script_{path.stem}" if path.stem in sys.modules else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OpprofError(f"{path}: not a Python file (its name has to end in .py)")
    module = importlib.util.module_from_spec(spec)
    # Dynamo and dataclasses look a function's module up by its name, and a script may import its neighbours.
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    with _running(path, "could not be loaded"):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _running(path: Path, what: str) -> Iterator[None]:
    """Runs code of the script as if it had been started alone: what its own argparse sees is not opprof's command line."""
    arguments, sys.argv = sys.argv, [str(path)]
    try:
        yield
    except Exception as error:
        raise ProgramError(
            f"{user_line(error, path) or path}: {what}: {type(error).__name__}: {error}"
        ) from error
    except SystemExit as error:
        progress(f"{path} ended the process itself, by SystemExit({error.code!r}): nothing is done")
        raise
    finally:
        sys.argv = arguments


def user_line(error: BaseException, script: Path) -> str | None:
    """`file:line` of the innermost line of the user's own code that the exception, or its text, names."""
    places = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        places.append((error.filename, error.lineno))
    # Dynamo unwinds the user's frames, and prints them in the message instead.
    places += [(f, int(n)) for f, n in re.findall(r'File "([^"]+)", line (\d+)', str(error))]
    own = script.parent.resolve()
    for file, line in reversed(places):
        path = Path(file)
        if path.is_file() and own in path.resolve().parents and "site-packages" not in path.parts:
            same = path.resolve() == script.resolve()
            return f"{script if same else os.path.relpath(path)}:{line}"
    return None


def _arguments(value: Any) -> Inputs:
    """What a script gives as input, as positional arguments and keyword arguments."""
    if isinstance(value, dict):
        return (), dict(value)
    if isinstance(value, (tuple, list)):
        return tuple(value), {}
    return (value,), {}


def _moved(value: Any, device: str) -> Any:
    return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, value)


def _device_type(module: torch.nn.Module, value: Any) -> str:
    tensors = [*module.parameters(), *module.buffers(), *tree_leaves(value)]
    kinds = {leaf.device.type for leaf in tensors if isinstance(leaf, torch.Tensor)}
    return "cuda" if "cuda" in kinds else "cpu"


def _check_alike(script: ModelScript, result: Inputs, seed: int) -> None:
    """Refuses inputs of another form: the program that is tested is compiled for the form of the first."""
    expected, structure = tree_flatten((script.args, script.kwargs))
    found, other = tree_flatten(result)
    remedy = "give what get_model_and_input() gives, with other numbers in it"
    if structure != other:
        raise OpprofError(
            f"{script.path}: get_inputs({seed}) returned another structure than the input of get_model_and_input()",
            remedy=remedy,
        )
    for own, like in zip(found, expected, strict=True):
        if _form(own) != _form(like):
            raise OpprofError(
                f"{script.path}: get_inputs({seed}) returned {_form(own)} where get_model_and_input() gives {_form(like)}",
                remedy=remedy,
            )


def _form(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{leaf.dtype} {tuple(leaf.shape)} on {leaf.device}"
    return f"a {type(leaf).__name__}"


def _is_same(first: Any, second: Any) -> bool:
    """True for what is no tensor of whole numbers that changed."""
    return (
        not isinstance(second, torch.Tensor)
        or second.is_floating_point()
        or first is second
        or torch.equal(first, second)
    )


def load_model_script(
    path: str | Path, *, device: str | None = None, script: ModuleType | None = None
) -> ModelScript:
    """Runs the script, where `script` is not what import_script() gave of it, and its get_model_and_input(); with `device`, "cpu" or
    "cuda", moves model and inputs there.

    Says so where a model is left on the CPU of a machine with a GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise OpprofError("--device=cuda: PyTorch sees no GPU", remedy="leave out --device")
    path = Path(path)
    script = script or import_script(path)
    factory = getattr(script, "get_model_and_input", None)
    if not callable(factory):
        raise OpprofError(
            f"{path}: does not define get_model_and_input()",
            remedy="add a function that returns (module, input); examples/mlp_activations.py is a short one",
        )
    with _running(path, "get_model_and_input() failed"):
        result = factory()
    if not (isinstance(result, (tuple, list)) and len(result) == 2):
        returned = type(result).__name__
        if isinstance(result, (tuple, list)):
            returned = f"a {returned} of {len(result)}"
        raise OpprofError(
            f"{path}: get_model_and_input() returned {returned}, not (module, input)",
            remedy="several inputs go into one tuple, (module, (x, y)), or by name into a dict",
        )
    module, value = result
    if not isinstance(module, torch.nn.Module):
        raise OpprofError(
            f"{path}: get_model_and_input() returned a {type(module).__name__} where the torch.nn.Module was expected"
        )
    inner = getattr(module, "_orig_mod", None)
    if isinstance(inner, torch.nn.Module):
        progress(f"{path} compiles its module itself; what is compiled here is the module inside")
        module = inner
    args, kwargs = _arguments(value)
    if device is not None:
        with _running(path, f"its model cannot be moved to {device}"):
            module = module.to(device)
            args, kwargs = _moved((args, kwargs), device)
    functions: dict[str, Any] = {}
    for name in ("make_step", "get_inputs", "archive_method"):
        functions[name] = getattr(script, name, None)
        if functions[name] is not None and not callable(functions[name]):
            raise OpprofError(
                f"{path}: {name} is a {type(functions[name]).__name__}, not a function"
            )
    loaded = ModelScript(path, path.stem, module, args, kwargs, moved_to=device, **functions)
    if device is None and torch.cuda.is_available() and loaded.device_type == "cpu":
        progress(
            f"{path} leaves its model on the CPU, so that is where it runs; --device cuda moves model and inputs to the GPU"
        )
    return loaded

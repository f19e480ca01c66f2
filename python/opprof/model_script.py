"""Loads a model script: a Python file with `get_model_and_input() -> (module, input)`. Needs PyTorch.

The input is a tensor, a tuple or list of positional arguments, or a dict of keyword arguments. A script whose iteration is
more than a call of the module (a training step) also defines `make_step(module)`, which is handed the module, compiled or
not, and returns the function to call with the input.
"""

import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from opprof.errors import OpprofError


@dataclass
class ModelScript:
    """A loaded script: the module, how it is called, and how one iteration is run."""

    path: Path
    name: str
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    make_step: Callable[[Any], Callable[..., Any]] | None = None

    def step_of(self, module: Any) -> Callable[[], Any]:
        """One iteration of `module`, which is the script's module or a compiled form of it, as a function without arguments."""
        if self.make_step is not None:
            step = self.make_step(module)
            return lambda: step(*self.args, **self.kwargs)

        def forward() -> Any:
            with torch.set_grad_enabled(self.module.training):
                return module(*self.args, **self.kwargs)

        return forward


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise OpprofError(
            f"{path}: no such file",
            remedy="give a Python file that defines get_model_and_input() -> (module, input)",
        )
    # A script may be called like a module that is loaded already: json.py must not become everybody's json.
    name = f"opprof_script_{path.stem}" if path.stem in sys.modules else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OpprofError(f"{path}: not a Python file (its name has to end in .py)")
    module = importlib.util.module_from_spec(spec)
    # Dynamo and dataclasses look a function's module up by its name, and a script may import its neighbours.
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _script_error(path, "could not be loaded", error) from error
    return module


def _script_error(path: Path, what: str, error: Exception) -> OpprofError:
    """Names the innermost line of the script itself that the exception passed through."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename) == path
    ]
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append(error.lineno)
    place = f"{path}:{lines[-1]}" if lines else str(path)
    return OpprofError(f"{place}: {what}: {type(error).__name__}: {error}")


def load_model_script(path: str | Path) -> ModelScript:
    """Runs the script and its get_model_and_input()."""
    path = Path(path)
    script = _import_file(path)
    factory = getattr(script, "get_model_and_input", None)
    if not callable(factory):
        raise OpprofError(
            f"{path}: does not define get_model_and_input()",
            remedy="add a function that returns (module, input); examples/mlp_activations.py is a short one",
        )
    try:
        result = factory()
    except Exception as error:
        raise _script_error(path, "get_model_and_input() failed", error) from error
    if not (isinstance(result, (tuple, list)) and len(result) == 2):
        raise OpprofError(
            f"{path}: get_model_and_input() returned {type(result).__name__}, not (module, input)"
        )
    module, value = result
    if not isinstance(module, torch.nn.Module):
        raise OpprofError(
            f"{path}: get_model_and_input() returned a {type(module).__name__} where the torch.nn.Module was expected"
        )
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(value, dict):
        kwargs = dict(value)
    elif isinstance(value, (tuple, list)):
        args = tuple(value)
    else:
        args = (value,)
    return ModelScript(path, path.stem, module, args, kwargs, getattr(script, "make_step", None))

"""Loads a model script: a Python file with `get_model_and_input() -> (module, input)`. Needs PyTorch.

The input is a tensor, a tuple or list of positional arguments, or a dict of keyword arguments. A script whose iteration is
more than a call of the module (a training step) also defines `make_step(module)`, which is handed the module, compiled or
not, and returns the function to call with the input.
"""

import contextlib
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

from opprof.errors import OpprofError, ProgramError
from opprof.progress import progress


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


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise OpprofError(
            f"{path}: {'is a folder' if path.is_dir() else 'no such file'}",
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
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(value, dict):
        kwargs = dict(value)
    elif isinstance(value, (tuple, list)):
        args = tuple(value)
    else:
        args = (value,)
    make_step = getattr(script, "make_step", None)
    if make_step is not None and not callable(make_step):
        raise OpprofError(f"{path}: make_step is a {type(make_step).__name__}, not a function")
    return ModelScript(path, path.stem, module, args, kwargs, make_step)

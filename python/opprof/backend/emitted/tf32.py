"""TF32 units for products of float32."""

import threading
from collections.abc import Callable
from typing import Any

import torch
import torch._functorch.config
from torch import fx
from torch._inductor.compile_fx import compile_fx, compile_fx_inner


class TF32Switch:
    """PyTorch's switch, which is of the whole process: on while one thread at least is inside, and then as it was before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = ""

    def __enter__(self) -> None:
        products = torch.backends.cuda.matmul
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = products.fp32_precision
                if self._before != "tf32":
                    # This sets what the older and the newer interface of PyTorch read, which refuses to go on where they differ.
                    products.allow_tf32 = True

    def __exit__(self, *_: Any) -> None:
        products = torch.backends.cuda.matmul
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._before != "tf32":
                products.allow_tf32 = False
                products.fp32_precision = self._before


_switch = TF32Switch()


def with_tf32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with products on TF32 units while it runs: Inductor asks when it compiles, cuBLAS when it is called."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with _switch:
            return function(*args, **kwargs)

    return wrapped


def compile_with_tf32(graph: fx.GraphModule, inputs: list[Any], options: dict[str, Any]) -> Any:
    """What Inductor makes of the graph, forward and backward, each with the units while it runs."""

    @with_tf32
    def compile_part(*args: Any, **kwargs: Any) -> Any:
        # The backward part may be compiled when it is called first.
        part = compile_fx_inner(*args, **kwargs)
        part.current_callable = with_tf32(part.current_callable)
        return part

    # What comes out of the cache of both together would come without this.
    with torch._functorch.config.patch(enable_autograd_cache=False), _switch:
        return compile_fx(graph, inputs, inner_compile=compile_part, config_patches=options)

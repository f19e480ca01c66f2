"""TF32 units for products of float32."""

from collections.abc import Callable
from typing import Any

import torch


def with_tf32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with products on TF32 units while it runs: Inductor asks when it compiles, cuBLAS when it is called."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        products = torch.backends.cuda.matmul
        before = products.fp32_precision
        if before == "tf32":
            return function(*args, **kwargs)
        # This sets what the older and the newer interface of PyTorch read, which refuses to go on where they differ.
        products.allow_tf32 = True
        try:
            return function(*args, **kwargs)
        finally:
            products.allow_tf32 = False
            products.fp32_precision = before

    return wrapped

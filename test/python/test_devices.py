"""What is asked of a device, and what is switched on it for a while."""

import pytest
import torch

from opprof import devices
from opprof.devices import float32_products


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("before", ["none", "ieee", "tf32"])
def test_settings_of_products_are_as_they_were(tf32: bool, before: str) -> None:
    products = torch.backends.cuda.matmul
    if not hasattr(products, "fp32_precision"):
        pytest.skip("this PyTorch has one interface")
    own = products.fp32_precision
    try:
        products.allow_tf32 = before == "tf32"
        products.fp32_precision = before
        with pytest.raises(ZeroDivisionError), float32_products(tf32=tf32):
            assert products.allow_tf32 == tf32
            assert (products.fp32_precision == "tf32") == tf32
            raise ZeroDivisionError
        # Whose words are part of the keys of Inductor's cache.
        assert products.fp32_precision == before
        assert products.allow_tf32 == (before == "tf32")
    finally:
        products.allow_tf32 = own == "tf32"
        products.fp32_precision = own


def test_what_a_device_survives_is_told_from_its_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch has one class for all that CUDA says."""
    refused = torch.AcceleratorError("operation not permitted when stream is capturing")

    def fail() -> None:
        raise torch.AcceleratorError("an illegal memory access was encountered")

    devices.raise_if_lost(refused)
    monkeypatch.setattr(devices, "synchronize", fail)
    devices.raise_if_lost(ValueError("of the model"))
    with pytest.raises(torch.AcceleratorError, match="not permitted"):
        devices.raise_if_lost(refused)

"""What the Python tests share: the examples, and a way to write model scripts."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of the example workloads."""
    return EXAMPLES


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Writes a model script with the given forward, and returns its path."""

    def write(body: str, name: str = "model_under_test.py") -> Path:
        path = tmp_path / name
        path.write_text("import torch\n\n\n" + textwrap.dedent(body))
        return path

    return write

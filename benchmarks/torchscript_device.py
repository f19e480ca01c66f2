"""Profiles and optimizes TorchScript archives on a device: the share of kernel time at each confidence, and the step before and after.

    PYTHONPATH=python OPPROF_TOOLS_DIR=build/bin python benchmarks/torchscript_device.py [--device cuda] [--size 224] [NAME …]

Archives of torchvision's ResNet-18 and MobileNet V3 (scripted) and ConvNeXt (traced), and of a recurrent model (scripted), all with
random weights; needs torchvision for all but `lstm`. A line of JSON for each. `--no-optimize` only profiles.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn

from opprof.run_folder import RunFolder


class Tagger(nn.Module):
    """Two recurrent layers and a product, on sequences of 64 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0])


def archive_of(name: str, size: int) -> tuple[Any, str]:
    """A module of TorchScript, and its input as the tools take it."""
    if name == "lstm":
        return torch.jit.script(Tagger().eval()), "8x64x64xf32"
    import torchvision

    model = getattr(torchvision.models, name)(weights=None).eval()
    images = torch.randn(8, 3, size, size)
    scripted = name != "convnext_tiny"
    module = torch.jit.script(model) if scripted else torch.jit.trace(model, images)
    return module, "x".join(map(str, images.shape)) + "xf32"


NAMES = ("resnet18", "mobilenet_v3_small", "convnext_tiny", "lstm")


def opprof(*words: str) -> str | None:
    """What was wrong, where the command failed."""
    ended = subprocess.run(
        [sys.executable, "-m", "opprof", *words], capture_output=True, text=True, check=False
    )
    return (ended.stderr or ended.stdout)[-400:] if ended.returncode else None


def shares(profile: dict[str, Any]) -> dict[str, Any]:
    """Of the kernels' time, by confidence; on a machine without a GPU the kernels are operators."""
    time = Counter[str]()
    for kernel in profile["kernels"]:
        time[kernel["confidence"]] += kernel["duration_ns"]
    total = max(1, sum(time.values()))
    return {
        "kernels": len(profile["kernels"]),
        **{key: round(value / total, 4) for key, value in time.most_common()},
    }


def optimized(file: Path) -> dict[str, Any]:
    """Microseconds of a waiting step by each program that was measured, and the error of what was kept."""
    result = json.loads(file.read_text())
    return {
        program["name"]: {
            "us": round(program["latency_ns"] / 1e3, 1),
            "error": program["error"],
            "within_budget": program["within_budget"],
        }
        for program in result["programs"]
        if program["latency_ns"] is not None
    }


def measure(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    module, inputs = archive_of(name, options.size)
    archive = folder / f"{name}.pt"
    module.save(archive)
    common = [str(archive), "--input", inputs, f"--device={options.device}"]
    row: dict[str, Any] = {"archive": name, "device": options.device, "torch": torch.__version__}
    failed = opprof("profile", *common, "-o", str(folder / "run"))
    profiled = RunFolder(folder / "run").profile
    row["profile"] = failed or shares(json.loads(profiled.read_text()))
    if not options.no_optimize:
        budget = f"--budget-seconds={options.budget_seconds}"
        failed = opprof("optimize", *common, budget, "-o", str(folder / "out"))
        row["optimize"] = failed or optimized(folder / "out" / "optimize.json")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the archives (default: all)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", type=int, default=224, help="of the images' sides")
    parser.add_argument("--budget-seconds", type=float, default=60.0)
    parser.add_argument("--no-optimize", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    for name in options.names or NAMES:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            print(json.dumps(measure(name, options, Path(folder))), flush=True)


if __name__ == "__main__":
    main()

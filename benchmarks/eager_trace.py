"""Holds the nodes of an eager program's kernels against the calls that ran them, on models of transformers and torchvision.

    PYTHONPATH=python OPPROF_TOOLS_DIR=build/bin python benchmarks/eager_trace.py [--device=cuda] [MODEL…]

Every call of a function of torch marks a range while it runs, and while the functions of autograd run that it recorded, views included, under the name by which
the export knows its nodes; the match between operators and nodes does not look at it. A line of JSON for each model, in evaluation and in training: shares of kernel
time by confidence, and of the time in such ranges the share that is on nodes of that call: what has no node counts as not right. Calls of which the graph has no node
(the loss; sums of gradients, which no function runs) are counted apart. `--by=modules` marks modules instead, and judges only what has a node.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test" / "python"))
import test_eager_trace

OWN = ("transformer", "convolutions", "experts")
TRANSFORMERS = ("bert", "vit", "llama", "t5")
TORCHVISION = ("resnet18", "mobilenet_v3_small", "convnext_tiny", "swin_t")


class First(nn.Module):
    """The first result of a model that gives several."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.model(x)
        return result if isinstance(result, torch.Tensor) else result[0]


def make(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A model with random weights, and its inputs."""
    if name in OWN:
        return getattr(test_eager_trace, name)()
    if name in TORCHVISION:
        import torchvision

        return First(getattr(torchvision.models, name)()), (torch.randn(4, 3, 224, 224),)
    import transformers

    words = (torch.randint(0, 1000, (2, 64)),)
    small: dict[str, Any] = {"hidden_size": 256, "num_hidden_layers": 4, "intermediate_size": 688}
    if name == "bert":
        config = transformers.BertConfig(num_attention_heads=4, **small)
        return First(transformers.BertModel(config)), words
    if name == "vit":
        config = transformers.ViTConfig(num_attention_heads=4, **small)
        return First(transformers.ViTModel(config)), (torch.randn(4, 3, 224, 224),)
    if name == "llama":
        config = transformers.LlamaConfig(
            num_attention_heads=8, num_key_value_heads=2, vocab_size=1000, use_cache=False, **small
        )
        return First(transformers.LlamaModel(config)), words
    config = transformers.T5Config(
        d_model=256, d_ff=512, num_layers=3, num_heads=4, d_kv=64, vocab_size=1000
    )
    return First(transformers.T5EncoderModel(config)), words


def judge(name: str, train: bool, device: str, by: str) -> dict[str, Any]:
    model, inputs = make(name)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    folder = Path(tempfile.mkdtemp())
    profile = test_eager_trace.profiled(
        model.to(device).train(train),
        tuple(x.to(device) for x in inputs),
        folder,
        train=train,
        change=lambda _: None,
        mark=by,
    )
    time, missing = Counter[str](), Counter[str]()
    for kernel in profile["kernels"]:
        time["all"] += kernel["duration_ns"]
        time[kernel["confidence"]] += kernel["duration_ns"]
        if not kernel["nodes"]:
            missing[kernel["explanation"]] += kernel["duration_ns"]
    share = {key: round(time[key] / time["all"], 4) for key in ("high", "medium", "unattributed")}
    if by == "modules":
        right = {"right_of_judged": judge_modules(profile)}
    else:
        judged = test_eager_trace.judge_functions(
            profile, json.loads((folder / "graph.json").read_text())
        )
        right = {
            f"right_of_{where}": round(judged[f"{where} right"] / judged[where], 5)
            for where in ("all", "function", "backward", "accumulate")
            if judged[where]
        }
        right["judged"] = round(judged["all"] / time["all"], 4)
        right |= {
            key: round(value / time["all"], 5)
            for key, value in judged.items()
            if key.startswith("wrong at") or key == "all missing"
        }
    return {
        "model": name,
        "train": train,
        "kernels": len(profile["kernels"]),
        **share,
        **right,
        "without_a_node": {
            text: round(duration / time["all"], 4) for text, duration in missing.most_common(3)
        },
    }


def judge_modules(profile: dict[str, Any]) -> float:
    """Of the time of kernels that have a node and lie in a module's range, the share whose node is of that module."""
    modules = {node["name"]: node["module"] for node in profile["nodes"]}
    judged = right = 0
    for kernel in profile["kernels"]:
        marked = kernel.get("range", "")
        if marked.startswith("module:") and kernel["nodes"]:
            judged += kernel["duration_ns"]
            if all(modules[node] == marked[len("module:") :] for node in kernel["nodes"]):
                right += kernel["duration_ns"]
    return round(right / max(1, judged), 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--by", choices=("functions", "modules"), default="functions")
    arguments = parser.parse_args()
    for name in arguments.models or (*OWN, *TRANSFORMERS, *TORCHVISION):
        for train in (False, True):
            try:
                result = judge(name, train, arguments.device, arguments.by)
            except (RuntimeError, ImportError) as error:
                # Hooks of backward forbid writing in place.
                result = {"model": name, "train": train, "left_out": str(error)[:200]}
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()

"""Holds the nodes of an eager program's kernels against the calls that ran them, on models of transformers, torchvision and timm.

    PYTHONPATH=python OPPROF_TOOLS_DIR=build/bin python benchmarks/eager_trace.py [--device=cuda] [MODEL…]

Any model `timm/NAME` is one of timm's.

Every call of a function of torch marks a range while it runs, and while the functions of autograd run that it recorded, views included, under the name by which
the export knows its nodes; the match between operators and nodes does not look at it. A line of JSON for each model, in evaluation and in training: shares of kernel
time by confidence, and of the time in such ranges the share that is on nodes of that call: what has no node counts as not right. Calls of which the graph has no node
(the loss; sums of gradients, which no function runs) are counted apart. `--by=modules` marks modules instead, and judges only what has a node.

`--as-device` rewrites a CPU's trace as a device's: each innermost operator that computes calls the runtime, and its kernel runs on a stream some
time later. Printed are the shares that are right where correlation and External ids say which call launched what, and where both are missing.
"""

import argparse
import copy
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test" / "python"))
import test_eager_trace

OWN = ("transformer", "convolutions", "experts")
TRANSFORMERS = ("bert", "vit", "llama", "t5")
LIBRARY = ("ASTModel", "JambaModel", "GptOssModel", "Wav2Vec2ConformerModel", "SamVisionModel")
TORCHVISION = ("resnet18", "mobilenet_v3_small", "convnext_tiny", "swin_t")
TIMM = (
    "timm/efficientformerv2_s0",
    "timm/mobilevitv2_050",
    "timm/coat_lite_tiny",
    "timm/levit_128s",
    "timm/poolformer_s12",
    "timm/volo_d1_224",
)


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
    if name.startswith("timm/"):
        import timm

        model = timm.create_model(name.removeprefix("timm/"), pretrained=False)
        return First(model), (torch.randn(2, *model.default_cfg["input_size"]),)
    import library_models

    if name in library_models.MODELS:
        own = library_models.MODELS[name]()
        return own.module, own.args
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


def make_repeatable(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The model without what dropout draws, so that the export and each run compute the same."""
    model, inputs = make(name)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model, inputs


#: What makes room, or only asks.
_NO_KERNEL = ("empty", "resize", "result_type", "item", "_local_scalar_dense", "is_", "size")


def computes(operator: str) -> bool:
    """Whether an operator of ATen launches a kernel of its own: no view, no allocation."""
    name = operator.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name, None)
    if name == operator or packet is None or name.lstrip("_").startswith(_NO_KERNEL):
        return False
    returned = [
        value.alias_info
        for overload in packet.overloads()
        for value in getattr(packet, overload)._schema.returns
    ]
    return not returned or not all(info and not info.is_write for info in returned)


def as_device(trace: dict[str, Any], ids: bool) -> dict[str, Any]:
    """A CPU's trace as one of a device that lags behind: `ids` says whether correlation and External ids are in it."""
    trace = copy.deepcopy(trace)
    events = trace["traceEvents"]
    operators = [e for e in events if e.get("ph") == "X" and e.get("cat") == "cpu_op"]
    operators.sort(key=lambda e: (e["tid"], e["ts"], -e["dur"]))
    leaves = [
        e
        for e, following in zip(operators, [*operators[1:], None], strict=True)
        if following is None
        or following["tid"] != e["tid"]
        or following["ts"] >= e["ts"] + e["dur"]
    ]
    launched = [e for e in leaves if computes(e["name"])]
    launched.sort(key=lambda e: e["ts"])
    free = 0.0
    for number, operator in enumerate(launched, start=1):
        call = operator["ts"] + operator["dur"] / 4
        begin = max(free, call + 20)
        free = begin + max(operator["dur"], 1) + 0.5
        known = {"External id": operator["args"].get("External id"), "correlation": number}
        common = {"ph": "X", "args": known}
        events.append(
            {
                **common,
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "pid": operator["pid"],
                "tid": operator["tid"],
                "ts": call,
                "dur": operator["dur"] / 4,
            }
        )
        events.append(
            {
                **common,
                "cat": "kernel",
                "name": "kernel_of_" + operator["name"].removeprefix("aten::"),
                "pid": 0,
                "tid": 7,
                "ts": begin,
                "dur": max(operator["dur"], 1),
                "args": {**known, "device": 0, "stream": 7, "context": 1},
            }
        )
    return trace if ids else without_ids(trace)


def without_ids(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace without what says which call launched a kernel."""
    trace = copy.deepcopy(trace)
    for event in trace["traceEvents"]:
        for key in ("External id", "correlation"):
            event.get("args", {}).pop(key, None)
    return trace


def nodes_of_runs(trace: dict[str, Any], graph: dict[str, Any]) -> dict[str, set[str]]:
    """The nodes of each call that ran, by its label. An export may number calls otherwise, as it makes some on the way that leave no node:
    calls of a function that both have as often are the same in their order, others are not judged."""
    nodes = test_eager_trace.nodes_of_calls(graph)
    ran = {
        event["name"].removeprefix("function:")
        for event in trace["traceEvents"]
        if event.get("cat") == "user_annotation" and event["name"].startswith("function:")
    }

    def by_function(labels: Iterable[str]) -> dict[str, list[str]]:
        # What an export puts in by itself (`_set_grad_enabled`) has no number.
        numbered = [label for label in labels if label.rpartition("_")[2].isdecimal()]
        found: dict[str, list[str]] = {}
        for label in sorted(numbered, key=lambda label: int(label.rpartition("_")[2])):
            found.setdefault(label.rpartition("_")[0], []).append(label)
        return found

    exported = by_function(nodes)
    known = {}
    for function, labels in by_function(ran).items():
        others = exported.get(function, [])
        if len(labels) == len(others):
            known.update({label: nodes[other] for label, other in zip(labels, others, strict=True)})
    return known


def judge_as_device(name: str, train: bool) -> dict[str, Any]:
    """Shares of kernel time on the right node, with ids and without."""
    model, inputs = make_repeatable(name)
    kept: list[Any] = []
    result: dict[str, Any] = {"model": name, "train": train}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        test_eager_trace.profiled(
            model.train(train),
            inputs,
            folder,
            train=train,
            change=kept.append,
            mark="functions",
        )
        nodes = nodes_of_runs(kept[0], json.loads((folder / "graph.json").read_text()))
        for ids in (True, False):
            profile = test_eager_trace.joined(as_device(kept[0], ids), folder)
            judged = test_eager_trace.judge_functions(profile, nodes)
            time = sum(kernel["duration_ns"] for kernel in profile["kernels"])
            result["with_ids" if ids else "without_ids"] = {
                "kernels": len(profile["kernels"]),
                "judged": round(judged["all"] / max(1, time), 4),
                "right": round(judged["all right"] / max(1, judged["all"]), 5),
                "judged_ns": judged["all"],
                "right_ns": judged["all right"],
                **{
                    key: round(value / max(1, judged["all"]), 5)
                    for key, value in judged.items()
                    if key.startswith("wrong at") or key == "all missing"
                },
            }
    return result


def judge(name: str, train: bool, device: str, by: str) -> dict[str, Any]:
    model, inputs = make_repeatable(name)
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
        trace = json.loads((folder / "trace.json").read_text())
        nodes = nodes_of_runs(trace, json.loads((folder / "graph.json").read_text()))
        judged = test_eager_trace.judge_functions(profile, nodes)
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
        if device == "cuda":
            profile = test_eager_trace.joined(without_ids(trace), folder)
            alone = test_eager_trace.judge_functions(profile, nodes)
            right["right_without_ids"] = round(alone["all right"] / max(1, alone["all"]), 5)
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
    parser.add_argument("--as-device", action="store_true", help="a CPU's trace as a device's")
    arguments = parser.parse_args()
    for name in arguments.models or (*OWN, *TRANSFORMERS, *LIBRARY, *TORCHVISION, *TIMM):
        for train in (False, True):
            try:
                if arguments.as_device:
                    result = judge_as_device(name, train)
                else:
                    result = judge(name, train, arguments.device, arguments.by)
            except (RuntimeError, ImportError) as error:
                # Hooks of backward forbid writing in place.
                result = {"model": name, "train": train, "left_out": str(error)[:200]}
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()

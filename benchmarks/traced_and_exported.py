"""Compares the repeats of models as a tracer records them (`torch.jit.trace`, `opprof-torchscript`) with those of their exported graphs.

    python benchmarks/traced_and_exported.py [--tools build/bin] [--only bert …] [--keep FOLDER] [-o results.jsonl]

A model groups alike where both graphs have the same classes: as many, of as many places each, with the same labels. For each model a line
has how it ended and, where it differs, the classes that only one of the two graphs has; nodes may differ, as an exported graph asserts
types at its casts. The models are those of repeat_models.py, which takes transformers; one that can't be built, traced or exported here is
named and not counted.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from repeat_models import arguments, build, measured, write_lines
from torch import Tensor, nn

from opprof.export.graph_json import source_of_exported_program, write_graph_json

MODELS = [
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma",
    "olmo2",
    "phi",
    "phi3",
    "opt",
    "gpt2",
    "gpt-neox",
    "gpt-neo",
    "bloom",
    "falcon",
    "granite",
    "glm4",
    "gemma2",
    "cohere2",
    "starcoder2",
    "stablelm",
    "bert",
    "roberta",
    "distilbert",
    "albert",
    "electra",
    "mobilebert",
    "fnet",
    "convbert",
    "squeezebert",
    "deberta-v2",
    "t5",
    "t5-encoder",
    "mt5",
    "bart",
    "whisper",
    "mamba",
    "hf-vit",
    "hf-swin",
    "dinov2",
]


class Tensors(nn.Module):
    """A model that takes tensors alone and gives its first result, as a tracer wants it. What is no tensor is held."""

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.names = [name for name, value in kwargs.items() if isinstance(value, Tensor)]
        self.others = {
            name: value
            for name, value in kwargs.items()
            if name not in {*self.names, "return_dict"}
        }
        self.count = len(args)

    def forward(self, *tensors: Tensor) -> Any:
        named = dict(zip(self.names, tensors[self.count :], strict=True))
        result = self.model(*tensors[: self.count], **named, **self.others)
        return result if isinstance(result, Tensor) else result[0]


def example(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model for inference, with inputs that are all tensors."""
    if name in ("t5-encoder", "mt5"):
        model, args, kwargs = build("t5")
        if name == "t5-encoder":
            model, kwargs = model.encoder, {"input_ids": kwargs["input_ids"]}
        else:
            from transformers import MT5Config, MT5Model

            config = {**model.config.to_dict(), "feed_forward_proj": "gated-gelu"}
            model = MT5Model(MT5Config(**config)).eval()
    else:
        model, args, kwargs = build(name)
    wrapped = Tensors(model, args, kwargs).eval()
    return wrapped, (*args, *(kwargs[name] for name in wrapped.names))


def describe(tensor: Tensor) -> str:
    short = {torch.float32: "f32", torch.int64: "i64", torch.bool: "b8"}[tensor.dtype]
    return "x".join(map(str, [*tensor.shape, short]))


def graphs(name: str, folder: Path, tools: Path) -> dict[str, Path]:
    """The model's graph as JSON, exported and as its archive is read now."""
    files = {kind: folder / f"{name}.{kind}.json" for kind in ("traced", "exported")}
    archive, texts = folder / f"{name}.pt", folder / f"{name}.inputs.json"
    if not texts.exists():
        model, inputs = example(name)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.trace(model, inputs, check_trace=False).save(archive)
            program = torch.export.export(model, inputs, strict=False)
        write_graph_json(files["exported"], source_of_exported_program(program, name))
        texts.write_text(json.dumps([describe(tensor) for tensor in inputs]))
    command = [tools / "opprof-torchscript", archive, "-o", files["traced"]]
    command += [f"--input={text}" for text in json.loads(texts.read_text())]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return files


def classes_of(graph: Path, tools: Path) -> dict[str, Any]:
    module, partitions = graph.with_suffix(".mlir"), graph.with_suffix(".partitions.json")
    translate = [tools / "opprof-translate", "--import-fx-json", graph, "-o", module]
    subprocess.run(translate, check=True, capture_output=True, text=True)
    dedup = f"--dedup-partitions=partition-map={partitions}"
    command = [tools / "opprof-opt", module, dedup, "-o", "/dev/null"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(partitions.read_text())
    return result


def compare(name: str, folder: Path, tools: Path) -> dict[str, Any]:
    files = graphs(name, folder, tools)
    line: dict[str, Any] = {"model": name}
    labels = {}
    for kind, graph in files.items():
        found = classes_of(graph, tools)
        line[kind] = {
            "nodes": found["node_count"],
            "classes": [
                [entry["node_count"], len(entry["partitions"])] for entry in found["classes"]
            ],
        }
        labels[kind] = collections.Counter(
            tuple(place["label"] for place in entry["partitions"]) for entry in found["classes"]
        )
    line["alike"] = labels["traced"] == labels["exported"]
    for kind, other in (("traced", "exported"), ("exported", "traced")):
        if only := labels[kind] - labels[other]:
            line[f"only_{kind}"] = [list(label) for label in only]
    return line


def main() -> None:
    options = arguments(__doc__, MODELS).parse_args()

    def measure(name: str, folder: Path) -> dict[str, Any]:
        try:
            return compare(name, folder, options.tools)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{name}: {error.stderr}")

    lines = measured(options.only, options.keep, measure)
    alike = sum(line["alike"] for line in lines)
    print(f"{alike} of {len(lines)} models group alike")
    write_lines(lines, options.output)


if __name__ == "__main__":
    main()

"""Holds what is imported of TorchScript archives against the models that they were made of: repeats, places and bits.

    python benchmarks/torchscript_repeats.py [--only NAME…] [--keep DIR]

Needs torchvision, timm and transformers; the models are small and have random weights. Instances of a module are expected to be one class
where PyTorch says of them that they are alike: of one class and container, with the same settings, sizes of parameters and submodules, and
called with the same types. A row for each model: the nodes, those of them without module or line, the instances that are expected to
be merged, and those of them that are not, by name; and whether the emitted program gave TorchScript's bits, on three inputs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test/python")]

from repeat_oracle import MergedNodes  # noqa: E402

from opprof.tools import run_tool  # noqa: E402

MIN_NODES = 4


class First(nn.Module):
    """A model of transformers that gives its first result, which a tracer can follow."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        return self.model(x, return_dict=False)[0]


def transformers_model(kind: str, config: dict[str, Any]) -> nn.Module:
    import transformers

    made = transformers.AutoConfig.for_model(kind, **config)
    made._attn_implementation = "eager"
    return First(transformers.AutoModel.from_config(made))


def timm_model(name: str, **settings: Any) -> nn.Module:
    import timm

    return timm.create_model(name, **settings)


def torchvision_model(name: str, **settings: Any) -> nn.Module:
    import torchvision

    getter = getattr(torchvision.models, name, None) or getattr(torchvision.models.video, name)
    return getter(weights=None, **settings)


SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
}
IDS = (2, 16)
IMAGE = (1, 3, 64, 64)
CLIP = (1, 3, 8, 32, 32)

#: What makes a model, the sizes of its input, and whether it is traced.
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {
    "nystromformer": (
        lambda: transformers_model(
            "nystromformer", {**SIZES, "segment_means_seq_len": 16, "num_landmarks": 16}
        ),
        IDS,
        True,
    ),
    "hubert": (
        lambda: transformers_model(
            "hubert",
            {
                **SIZES,
                "conv_dim": [16] * 4,
                "conv_stride": [5, 2, 2, 2],
                "conv_kernel": [10, 3, 3, 2],
                "num_feat_extract_layers": 4,
                "num_conv_pos_embedding_groups": 4,
            },
        ),
        (2, 1600),
        True,
    ),
    "videomae": (
        lambda: transformers_model(
            "videomae", {**SIZES, "image_size": 32, "patch_size": 16, "num_frames": 4}
        ),
        (1, 4, 3, 32, 32),
        True,
    ),
    "focalnet": (
        lambda: transformers_model(
            "focalnet", {"image_size": 64, "embed_dim": 16, "depths": [2, 2, 4, 2]}
        ),
        IMAGE,
        True,
    ),
    "canine": (lambda: transformers_model("canine", {**SIZES, "num_hash_buckets": 64}), IDS, True),
    "ghostnet": (lambda: timm_model("ghostnet_050"), IMAGE, False),
    "hrnet": (lambda: timm_model("hrnet_w18_small"), IMAGE, True),
    "twins": (lambda: timm_model("twins_svt_small", img_size=64), IMAGE, True),
    "googlenet": (
        lambda: torchvision_model("googlenet", aux_logits=False, init_weights=False),
        IMAGE,
        False,
    ),
    "r2plus1d": (lambda: torchvision_model("r2plus1d_18"), CLIP, False),
    "squeezenet": (lambda: torchvision_model("squeezenet1_1"), IMAGE, False),
}


def inputs_of(sizes: tuple[int, ...]) -> Tensor:
    return torch.randint(3, 90, sizes) if sizes == IDS else torch.randn(sizes)


def text_of(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes)) + ("xi64" if sizes == IDS else "xf32")


def types_of(value: Any) -> Any:
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), value.stride()
    if isinstance(value, (list, tuple)):
        return tuple(map(types_of, value))
    if isinstance(value, dict):
        return tuple((key, types_of(entry)) for key, entry in value.items())
    return type(value).__name__


def signature_of(module: nn.Module) -> Any:
    """What PyTorch says of a module, without names."""
    return (
        type(module).__name__,
        module.extra_repr(),
        tuple(tuple(p.shape) for p in module.parameters(recurse=False)),
        tuple((name, signature_of(inner)) for name, inner in module.named_children()),
    )


def alike(model: nn.Module, given: Tensor) -> Iterator[list[str]]:
    """Paths of the modules that are alike."""
    calls: dict[str, list[Any]] = defaultdict(list)
    handles = [
        module.register_forward_pre_hook(
            lambda _, args, kwargs, path=path: calls[path].append(types_of((args, kwargs))),
            with_kwargs=True,
        )
        for path, module in model.named_modules()
    ]
    with torch.no_grad():
        model(given)
    for handle in handles:
        handle.remove()
    groups: dict[Any, list[str]] = defaultdict(list)
    for path, module in model.named_modules():
        # What is called twice stands in two places.
        if len(calls[path]) == 1:
            container = re.sub(r"\d+", "*", path)
            groups[container, signature_of(module), repr(calls[path])].append(path)
    yield from (paths for paths in groups.values() if len(paths) > 1)


def nodes_of(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for node in block["nodes"]:
        yield node
        for inner in node.get("blocks", []):
            yield from nodes_of(inner)


def import_archive(archive: Path, text: str) -> tuple[list[dict[str, Any]], list[Any], MergedNodes]:
    """The nodes, the modules that they name, and what of them is merged."""
    graph, module = archive.with_suffix(".json"), archive.with_suffix(".mlir")
    weights = archive.with_suffix(".safetensors")
    run_tool(
        "opprof-torchscript",
        [archive, f"--input={text}", "-o", graph, f"--weights={weights}"],
    )
    run_tool("opprof-translate", ["--import-fx-json", graph, "-o", module])
    partitions = archive.with_suffix(".partitions.json")
    run_tool(
        "opprof-opt",
        [module, f"--dedup-partitions=levels=8 partition-map={partitions}", "-o", "/dev/null"],
    )
    document = json.loads(graph.read_text())
    found = document["graphs"][0]
    return (
        list(nodes_of(found)),
        document["modules"],
        MergedNodes(json.loads(partitions.read_text())),
    )


def tensors_of(value: Any) -> list[Tensor]:
    """What of a result is tensors, those of tuples in order."""
    if isinstance(value, tuple):
        return [tensor for element in value for tensor in tensors_of(element)]
    return [value] if isinstance(value, Tensor) else []


def same_bits(archive: Path, sizes: tuple[int, ...]) -> bool:
    """Whether the emitted program gives what the archive gives."""
    program = archive.with_name(f"{archive.stem}_program.py")
    program.write_bytes(
        run_tool("opprof-translate", ["--emit-python", archive.with_suffix(".mlir")])
    )
    spec = importlib.util.spec_from_file_location(program.stem, program)
    assert spec is not None and spec.loader is not None
    emitted = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(emitted)
    loaded = torch.jit.load(archive)
    run = emitted.load(archive.with_suffix(".safetensors"), loaded)
    for _ in range(3):
        given = inputs_of(sizes)
        with torch.no_grad():
            if not all(map(torch.equal, tensors_of(run(given)), tensors_of(loaded(given)))):
                return False
    return True


def row_of(name: str, folder: Path) -> dict[str, Any]:
    make, sizes, traced = MODELS[name]
    torch.manual_seed(0)
    model, given = make().eval(), inputs_of(sizes)
    archive = folder / f"{name}.pt"
    with torch.no_grad():
        saved = (
            torch.jit.trace(model, given, check_trace=False) if traced else torch.jit.script(model)
        )
    saved.save(archive)
    nodes, modules, merged = import_archive(archive, text_of(sizes))
    return {
        "model": name,
        "form": "traced" if traced else "scripted",
        "nodes": len(nodes),
        "placeless": sum("modules" not in node or "stack" not in node for node in nodes),
        **repeats_of(model, given, nodes, modules, merged),
        "same bits": same_bits(archive, sizes),
    }


def repeats_of(
    model: nn.Module,
    given: Tensor,
    nodes: list[dict[str, Any]],
    modules: list[Any],
    merged: MergedNodes,
) -> dict[str, Any]:
    inside: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if "modules" in node:
            for path in {entry["path"] for entry in modules[node["modules"]]}:
                inside[path].append(node["name"])
    expected, missed = 0, []
    for paths in alike(model, given):
        if min(len(inside[path]) for path in paths) < MIN_NODES:
            continue
        expected += len(paths)
        first = [merged.find(name) for name in inside[paths[0]]]
        missed += [
            path for path in paths[1:] if [merged.find(name) for name in inside[path]] != first
        ]
    return {"repeats": expected, "missed": missed}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave archives and graphs here")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.only:
            print(json.dumps(row_of(name, folder)), flush=True)


if __name__ == "__main__":
    main()

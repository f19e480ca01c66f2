"""Makes ten archives for torchscript_import.py, of models that people deploy, scripted and traced, with random weights.

    python benchmarks/torchscript_archives.py FOLDER

Needs torchvision, timm and transformers. Prints the arguments for torchscript_import.py: archives, inputs, and the number of layers
that are alike as the model's own configuration has it.
"""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
import transformers
from torch import nn

IMAGE = "1x3x64x64xf32"
TOKENS = "2x16xi64"


class Tensors(nn.Module):
    """A model of transformers that takes tokens and gives its first result, which a tracer can follow."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.model(tokens, return_dict=False)[0]


def language_models() -> Iterator[tuple[str, nn.Module, int]]:
    small = {"vocab_size": 500, "attn_implementation": "eager"}
    config = transformers.GPT2Config(n_embd=96, n_head=6, n_layer=12, use_cache=False, **small)
    yield "gpt2", transformers.GPT2Model(config), 12
    sizes = {"hidden_size": 96, "num_attention_heads": 6, "intermediate_size": 192}
    config = transformers.BertConfig(num_hidden_layers=8, **sizes, **small)
    yield "bert", transformers.BertModel(config), 8
    config = transformers.DistilBertConfig(dim=96, n_heads=6, n_layers=6, hidden_dim=192, **small)
    yield "distilbert", transformers.DistilBertModel(config), 6


def with_head(model: nn.Module) -> nn.Module:
    """The model without weights that are zeros, with which every result would be right."""
    for weight in model.parameters():
        if not weight.any():
            nn.init.normal_(weight, std=0.02)
    return model.eval()


def models() -> Iterator[tuple[str, Any, str, int]]:
    """Name, module of TorchScript, inputs, and the most layers that are alike (0 where the model has none to count)."""
    image, tokens = torch.randn(1, 3, 64, 64), torch.randint(0, 500, (2, 16))
    vision = torchvision.models
    for name, layers in (("resnet18", 0), ("mobilenet_v3_small", 0), ("vgg11", 0)):
        scripted = torch.jit.script(with_head(getattr(vision, name)(weights=None)))
        yield name, scripted, IMAGE, layers
    vit = with_head(vision.VisionTransformer(64, 16, 6, 4, 64, 128))
    yield "vision_transformer", torch.jit.script(vit), IMAGE, 6
    densenet = with_head(vision.densenet121(weights=None))
    yield "densenet121_traced", torch.jit.trace(densenet, image, check_trace=False), IMAGE, 0
    for name, layers in (("deit_tiny_patch16_224", 12), ("mixer_s32_224", 8)):
        model = with_head(timm.create_model(name, img_size=64))
        yield f"{name}_traced", torch.jit.trace(model, image, check_trace=False), IMAGE, layers
    for name, model, layers in language_models():
        wrapped = Tensors(with_head(model))
        yield f"{name}_traced", torch.jit.trace(wrapped, tokens, check_trace=False), TOKENS, layers


def main() -> None:
    warnings.filterwarnings("ignore")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, module, inputs, layers in models():
            module.save(folder / f"{name}.pt")
            print(f"{folder / name}.pt:{inputs}:{layers or ''}", flush=True)


if __name__ == "__main__":
    main()

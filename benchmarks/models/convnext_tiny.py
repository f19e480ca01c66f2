"""A convolutional network with layer norms: ConvNeXt-T of timm."""

import timm
import torch


def get_model_and_input() -> tuple[torch.nn.Module, torch.Tensor]:
    """Eight images on a GPU; one block a stage and one image on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    model = timm.create_model("convnext_tiny", **({} if gpu else {"depths": (1, 1, 1, 1)}))
    device = "cuda" if gpu else "cpu"
    return model.eval().to(device), torch.randn(8 if gpu else 1, 3, 224, 224).to(device)

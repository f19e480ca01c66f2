"""A vision transformer with windows that shift: Swin-T of torchvision."""

import torch
import torchvision


def get_model_and_input() -> tuple[torch.nn.Module, torch.Tensor]:
    """Eight images on a GPU, one on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    images = torch.randn(8 if gpu else 1, 3, 224, 224)
    return torchvision.models.swin_t().eval().to(device), images.to(device)

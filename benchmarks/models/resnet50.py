"""ResNet-50 of torchvision, whose ReLUs write in place."""

import torch
from torchvision.models import resnet50


def get_model_and_input() -> tuple[torch.nn.Module, torch.Tensor]:
    """Eight images on a GPU, one small one on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    images = torch.randn(8, 3, 224, 224) if gpu else torch.randn(1, 3, 64, 64)
    device = "cuda" if gpu else "cpu"
    return resnet50().eval().to(device), images.to(device)

"""A convolutional network with squeeze and excitation: EfficientNetV2-S of torchvision."""

import torch
import torchvision


def get_model_and_input() -> tuple[torch.nn.Module, torch.Tensor]:
    """Eight images of 224 × 224 on a GPU, one of 64 × 64 on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    images = torch.randn(8, 3, 224, 224) if gpu else torch.randn(1, 3, 64, 64)
    return torchvision.models.efficientnet_v2_s().eval().to(device), images.to(device)

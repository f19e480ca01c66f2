"""SegFormer of transformers: attention to a grid that convolutions have made smaller."""

import torch
from transformers import SegformerConfig, SegformerForImageClassification


def get_model_and_input() -> tuple[torch.nn.Module, torch.Tensor]:
    """Four images of 256 × 256 on a GPU, one of 64 × 64 on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    images = torch.randn(4, 3, 256, 256) if gpu else torch.randn(1, 3, 64, 64)
    return SegformerForImageClassification(SegformerConfig()).eval().to(device), images.to(device)

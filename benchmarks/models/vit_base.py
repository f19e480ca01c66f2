"""A vision transformer: ViT base of torchvision."""

import torch
from torchvision.models import VisionTransformer


def get_model_and_input() -> tuple[torch.nn.Module, torch.Tensor]:
    """Eight images on a GPU; two layers and one image on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    model = VisionTransformer(
        image_size=224,
        patch_size=16,
        num_layers=12 if gpu else 2,
        num_heads=12,
        hidden_dim=768,
        mlp_dim=3072,
    )
    # Zeros as it comes: whatever is computed before it, the result would be the same.
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    device = "cuda" if gpu else "cpu"
    return model.eval().to(device), torch.randn(8 if gpu else 1, 3, 224, 224).to(device)

"""A step of training of torchvision's ResNet-50 at its beginning: 32 images on a GPU, SGD with momentum."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models import resnet50


class Loss(nn.Module):
    """The network and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.network = resnet50()

    def forward(self, images: Tensor, classes: Tensor) -> Tensor:
        return F.cross_entropy(self.network(images), classes)


def get_model_and_input() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """32 images on a GPU, two on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    device, batch = ("cuda", 32) if gpu else ("cpu", 2)
    images, classes = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    return Loss().train().to(device), (images.to(device), classes.to(device))


def make_step(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """One step of SGD; returns the loss before it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)

    def step(images: Tensor, classes: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = model(images, classes)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step

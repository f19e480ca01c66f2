"""What is asked of the device that PyTorch uses. PyTorch is imported when it is asked."""


def synchronize() -> None:
    """Waits until the GPU has done what it was given, where there is one that was given something."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()

"""An encoder and a decoder: T5 small of transformers."""

import torch
from transformers import T5Config, T5Model


def get_model_and_input() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """8 × 128 and 8 × 64 ids on a GPU; two layers and one row on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    config = T5Config(num_layers=6 if gpu else 2, use_cache=False)
    device = "cuda" if gpu else "cpu"
    rows, length = (8, 128) if gpu else (1, 32)
    source = torch.randint(config.vocab_size, (rows, length))
    target = torch.randint(config.vocab_size, (rows, length // 2))
    inputs = {"input_ids": source.to(device), "decoder_input_ids": target.to(device)}
    return T5Model(config).eval().to(device), inputs

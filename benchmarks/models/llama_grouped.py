"""A decoder of Llama's form: 8 layers, 16 heads that share 4 keys and values."""

import torch
from transformers import LlamaConfig, LlamaModel


def get_model_and_input() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """4 × 128 ids on a GPU; two layers and 1 × 32 ids on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=8 if gpu else 2,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32000 if gpu else 1000,
        use_cache=False,
    )
    device = "cuda" if gpu else "cpu"
    ids = torch.randint(config.vocab_size, (4, 128) if gpu else (1, 32))
    return LlamaModel(config).eval().to(device), {"input_ids": ids.to(device)}

"""Mistral of transformers with a sliding window of 64 and grouped queries, six layers deep."""

import torch
from transformers import MistralConfig, MistralForCausalLM


def get_model_and_input() -> tuple[torch.nn.Module, torch.Tensor]:
    """2 × 256 ids on a GPU; one layer and 1 × 96 ids on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    config = MistralConfig(
        vocab_size=32000,
        hidden_size=1024,
        intermediate_size=3584,
        num_hidden_layers=6 if gpu else 1,
        num_attention_heads=16,
        num_key_value_heads=4,
        sliding_window=64,
        use_cache=False,
    )
    ids = torch.randint(5, 32000, (2, 256) if gpu else (1, 96))
    return MistralForCausalLM(config).eval().to(device), ids.to(device)

"""DeBERTa of transformers, whose attention adds gathered products with positions, and whose layers are given a parameter."""

import torch
from transformers import DebertaV2Config, DebertaV2Model


def get_model_and_input() -> tuple[torch.nn.Module, torch.Tensor]:
    """4 × 128 ids on a GPU; one layer and 1 × 16 ids on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    config = DebertaV2Config(
        vocab_size=30000,
        hidden_size=384,
        num_hidden_layers=6 if gpu else 1,
        num_attention_heads=6,
        intermediate_size=1536,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
    )
    ids = torch.randint(5, 30000, (4, 128) if gpu else (1, 16))
    return DebertaV2Model(config).eval().to(device), ids.to(device)

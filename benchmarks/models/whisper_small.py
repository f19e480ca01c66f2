"""Whisper of transformers: an encoder of sound and a decoder without a cache, as wide and deep as the small one."""

import torch
from transformers import WhisperConfig, WhisperModel


def get_model_and_input() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """2 × 80 × 3000 of sound and 2 × 64 ids on a GPU; one layer of each, 300 and 16 on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    layers = 12 if gpu else 1
    frames = 3000 if gpu else 300
    config = WhisperConfig(
        d_model=768,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        max_source_positions=frames // 2,
        use_cache=False,
    )
    device = "cuda" if gpu else "cpu"
    inputs = {
        "input_features": torch.randn(2, 80, frames).to(device),
        "decoder_input_ids": torch.randint(50000, (2, 64 if gpu else 16)).to(device),
    }
    return WhisperModel(config).eval().to(device), inputs

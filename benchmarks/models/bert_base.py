"""BERT base of transformers, with a padded batch."""

import torch
from transformers import BertConfig, BertModel


def get_model_and_input() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """8 × 128 ids on a GPU; two layers and 2 × 32 ids on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    config = BertConfig() if gpu else BertConfig(num_hidden_layers=2)
    shape = (8, 128) if gpu else (2, 32)
    device = "cuda" if gpu else "cpu"
    mask = torch.ones(shape, dtype=torch.long)
    mask[1, shape[1] * 3 // 4 :] = 0
    ids = torch.randint(config.vocab_size, shape)
    inputs = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
    return BertModel(config).eval().to(device), inputs

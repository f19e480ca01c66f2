"""RoBERTa of transformers that classifies a padded batch, six layers deep."""

import torch
from transformers import RobertaConfig, RobertaForSequenceClassification


def get_model_and_input() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """16 × 128 ids on a GPU; two layers and 2 × 32 ids on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    config = RobertaConfig(num_hidden_layers=6 if gpu else 2, num_labels=3)
    shape = (16, 128) if gpu else (2, 32)
    device = "cuda" if gpu else "cpu"
    mask = torch.ones(shape, dtype=torch.long)
    mask[:, shape[1] * 25 // 32 :] = 0
    # No id is the padding's, of which positions are counted.
    ids = torch.randint(5, 50000, shape)
    inputs = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
    return RobertaForSequenceClassification(config).eval().to(device), inputs

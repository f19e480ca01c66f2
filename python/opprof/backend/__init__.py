"""torch.compile backends out of rewrite scripts: how they are written, and how they are proven or refused."""

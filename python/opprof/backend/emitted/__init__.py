"""The sources of every emitted backend: `opprof emit` joins them into one file that needs PyTorch only."""

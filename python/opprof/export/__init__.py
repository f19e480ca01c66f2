"""What makes graphs of a model: the user's script, the graph at each stage of its compilation, graph JSON, and weights. Needs PyTorch."""

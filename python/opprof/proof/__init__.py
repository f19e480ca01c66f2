"""Proves or refutes launch maps: runs the compiled code and the graph that it was made from, and compares what they compute."""

"""The endings of files, which say what is in them. Imports nothing."""

GRAPH_JSON = ".json"
PT2 = ".pt2"
MLIR_TEXT, MLIR_BYTECODE = ".mlir", ".mlirbc"
MLIR = (MLIR_TEXT, MLIR_BYTECODE)
#: The forms of a graph that are read.
GRAPHS = (PT2, GRAPH_JSON, *MLIR)

SAFETENSORS, PT = ".safetensors", ".pt"

CAPTURE = ".opcap"

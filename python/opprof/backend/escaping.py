"""Text of other files as a part of an emitted one. Needs no PyTorch."""

import unicodedata


def escaped(text: str) -> str:
    """`text` as a part of a docstring or comment of an emitted file: one line that closes neither, and looks like what it is."""
    line = "".join(
        " " if c.isspace() else "?" if unicodedata.category(c).startswith("C") else c for c in text
    )
    return " ".join(line.split()).replace("\\", "\\\\").replace('"', "'")

"""Results of a benchmark's experiments, each a line of JSON that is printed and kept. An experiment that fails leaves the others."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

#: Of a longer line only the beginning is printed.
_PRINTED = 1500


class Results:
    """A file of results."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.folder = file.parent

    def say(self, part: str, **values: Any) -> None:
        """Prints one result and keeps it."""
        line = json.dumps({"part": part, **values})
        print(line if len(line) < _PRINTED else line[:_PRINTED] + " …", flush=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.write(line + "\n")

    def guarded(self, part: str, function: Callable[[], Any], **what: Any) -> None:
        """Runs one experiment. What it returns as a mapping is a result, and so is a failure; others say theirs themselves."""
        begin = time.perf_counter()
        try:
            values = function()
        except BaseException as error:
            traceback.print_exc()
            values = {"error": f"{type(error).__name__}: {error}"[:800]}
        seconds = round(time.perf_counter() - begin, 1)
        if isinstance(values, Mapping):
            self.say(part, **{**what, "seconds": seconds, **values})
        else:
            print(f"== {part}: {seconds} s", flush=True)

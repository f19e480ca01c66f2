"""The exceptions that are shown to people as they are, without a traceback of opprof's own."""

import traceback
from pathlib import Path
from typing import Any


class OpprofError(Exception):
    """What was wrong, where, and what to do about it, in words for the user."""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy
        # In a program that uses opprof as a library, Python's own traceback shows it.
        if remedy is not None and hasattr(self, "add_note"):
            self.add_note(remedy)


class ProgramError(OpprofError):
    """The user's own program failed. Its exception is the cause, and its traceback is the user's to see."""

    #: Where the program ran in another process, which cannot send its frames.
    _sent_traceback: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        state = {**self.__dict__, "_sent_traceback": self.program_traceback()}
        return type(self), self.args, state

    def program_traceback(self) -> str:
        """The traceback of the user's exception from the first frame that is not opprof's, as Python prints it."""
        if self._sent_traceback is not None:
            return self._sent_traceback
        error = self.__cause__
        if error is None:
            return ""
        trace = error.__traceback__
        package = Path(__file__).parent
        while trace is not None and _is_own(trace.tb_frame.f_code.co_filename, package):
            trace = trace.tb_next
        return "".join(traceback.format_exception(type(error), error, trace))


def _is_own(file: str, package: Path) -> bool:
    return file.startswith("<frozen importlib") or package in Path(file).parents

"""The one exception that is shown to people as it is, without a traceback."""


class OpprofError(Exception):
    """What was wrong, where, and what to do about it, in words for the user."""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy

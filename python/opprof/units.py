"""How numbers are printed for people. Imports nothing."""


def milliseconds(ns: float) -> str:
    """Nanoseconds in milliseconds, to the microsecond."""
    return f"{ns / 1e6:.3f}"


def microseconds(ns: float) -> str:
    """Nanoseconds in microseconds, to a tenth."""
    return f"{ns / 1e3:.1f}"


def counted(number: int, one: str, several: str | None = None) -> str:
    """The number and what it counts: 1 step, 2 steps."""
    return f"{number} {one if number == 1 else several or one + 's'}"

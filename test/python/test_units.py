"""How numbers are printed for people."""

from opprof.units import counted, microseconds, milliseconds


def test_times() -> None:
    assert (milliseconds(1_234_567), milliseconds(0)) == ("1.235", "0.000")
    assert (microseconds(1_234), microseconds(49)) == ("1.2", "0.0")


def test_what_is_counted_is_named() -> None:
    assert [counted(number, "step") for number in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]
    assert counted(2, "pass", "passes") == "2 passes"

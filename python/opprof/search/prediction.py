"""What a step takes once rewrites are applied: on a GPU the longer of its kernels and of what launches them. Needs no PyTorch."""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class StepModel:
    """Nanoseconds of a step, of a program on a GPU."""

    # Of its kernels together, as profiled, less what was predicted to be saved of them.
    kernel_ns: float
    # Of the host, from the beginning of a call until it has launched everything.
    host_ns: float
    # Beyond the longer of the two: a step begins, and is waited for.
    rest_ns: float = 0.0
    # Whether one CUDA graph launches everything.
    captured: bool = False

    @property
    def step_ns(self) -> float:
        return max(self.kernel_ns, 0.0 if self.captured else self.host_ns) + self.rest_ns

    def measured(self, step_ns: float) -> "StepModel":
        """The same, where a step was measured to take so long."""
        bound = self.step_ns - self.rest_ns
        return replace(self, rest_ns=max(step_ns - bound, 0.0))

    def saving(self, kernel_ns: float, *, captured: bool) -> "StepModel":
        """With so much less in kernels, or more where it is below 0."""
        return replace(self, kernel_ns=max(self.kernel_ns - kernel_ns, 0.0), captured=captured)


def kernel_time(profile: Any) -> float | None:
    """Nanoseconds of kernels in a steady step of a profile (`profile.opprof.json`); None where it has no such step."""
    steady: int = sum(step["phase"] == "steady" for step in profile.get("steps", []))
    if not steady:
        return None
    kernels = (one for one in profile["kernels"] if one.get("phase") == "steady")
    total: int = sum(one["duration_ns"] for one in kernels)
    return total / steady

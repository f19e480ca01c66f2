"""What a step takes once rewrites are applied: on a GPU the longer of its kernels and of what launches them. Needs no PyTorch."""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class StepModel:
    """Nanoseconds of a step, of a program on a GPU."""

    # Of its kernels together, as profiled, less what was predicted to be saved of them and what a measured step has no room for.
    kernel_ns: float
    # Of the host, from the beginning of a call until it has launched everything.
    host_ns: float
    # Beyond the longer of the two: a step begins, and is waited for.
    rest_ns: float = 0.0
    # Whether one CUDA graph launches everything.
    captured: bool = False
    # Which part of the profiled kernels' time is left: rules predict shares of those.
    left: float = 1.0

    @property
    def step_ns(self) -> float:
        return max(self.kernel_ns, 0.0 if self.captured else self.host_ns) + self.rest_ns

    def measured(self, step_ns: float) -> "StepModel":
        """The same, where a step was measured to take so long: what was predicted to take longer takes less."""
        made = self._with_kernels(min(self.kernel_ns, step_ns))
        made = replace(made, host_ns=min(self.host_ns, step_ns), rest_ns=0.0)
        return replace(made, rest_ns=step_ns - made.step_ns)

    def measured_again(self, step_ns: float) -> "StepModel":
        """The same program, where it takes so long by now: kernels take what they did, and the host that launches them may not."""
        if self.captured or self.host_ns <= self.kernel_ns:
            return self.measured(step_ns)
        host_ns = max(self.host_ns + step_ns - self.step_ns, 0.0)
        return replace(self, host_ns=host_ns).measured(step_ns)

    def saving(
        self, profiled_ns: float, *, instead_ns: float = 0.0, captured: bool = False
    ) -> "StepModel":
        """With so much less in kernels, in time of the kernels as they were profiled; `instead_ns` is what no longer is saved."""
        # What takes the place of another changes the same kernels: both are of what was profiled.
        changed = self.kernel_ns + instead_ns - profiled_ns * (1.0 if instead_ns else self.left)
        return replace(self._with_kernels(max(changed, 0.0)), captured=self.captured or captured)

    def _with_kernels(self, kernel_ns: float) -> "StepModel":
        left = self.left * kernel_ns / self.kernel_ns if self.kernel_ns else self.left
        return replace(self, kernel_ns=kernel_ns, left=left)


def kernel_time(profile: Any) -> float | None:
    """Nanoseconds of kernels in a steady step of a profile (`profile.opprof.json`); None where it has no such step."""
    steady: int = sum(step["phase"] == "steady" for step in profile.get("steps", []))
    if not steady:
        return None
    kernels = (one for one in profile["kernels"] if one.get("phase") == "steady")
    total: int = sum(one["duration_ns"] for one in kernels)
    return total / steady

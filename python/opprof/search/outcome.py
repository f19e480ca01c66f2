"""What a search comes to: every program in one measurement, which of them to use, and the record of it. Needs no PyTorch."""

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from opprof.backend.rewrites import Decline, Script
from opprof.search.trials import BOX_OVER, Ablation, End, Trial

VERSION = 2
OPTIMIZED = "optimized"
# A difference that no measurement tells from noise.
_AS_FAST = 0.02


@dataclass
class Entrant:
    """One program of the last measurement, or a recipe that has none."""

    name: str
    # What a person writes to use it.
    lines: tuple[str, ...]
    error: float | None = None
    # Whether it may be used: it is the user's own program, or was compared and is within the budget.
    allowed: bool = False
    latency_ns: int | None = None
    # Of steps that follow one another; None on a CPU.
    loop_ns: int | None = None
    # Why it was not measured.
    reason: str = ""

    @property
    def within_budget(self) -> bool:
        """Whether it was compared, and errs by no more than is allowed."""
        return self.allowed and self.error is not None


@dataclass
class Outcome:
    """What `opprof optimize` found."""

    name: str
    entrants: list[Entrant]
    trials: list[Trial]
    ablations: list[Ablation]
    kept: list[Script]
    # What is fastest within the budget, by its name among the entrants.
    use: str = ""
    # Why that and not another, where there is something to say.
    remark: str = ""
    backend: Path | None = None
    # The checks of the backend as it was written.
    checks: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    # What errors are relative to.
    reference: str = "float64"
    # Levels by region, where they were searched for.
    precision: dict[str, Any] | None = None
    # What the rules declined, and what of the program none of them saw.
    declined: list[Decline] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def entrant(self, name: str) -> Entrant | None:
        return next((one for one in self.entrants if one.name == name), None)

    @property
    def best_recipe(self) -> Entrant | None:
        """The fastest within the budget that needs nothing of opprof."""
        known = [
            one
            for one in self.entrants
            if one.allowed and one.name != OPTIMIZED and one.latency_ns is not None
        ]
        return min(known, key=lambda one: one.latency_ns or 0, default=None)

    @property
    def lacked_time(self) -> list[Trial]:
        """What was not tried as the time box ended."""
        return [trial for trial in self.trials if trial.reason.startswith(BOX_OVER)]

    def be_beaten(self, reason: str) -> None:
        """Nothing is kept. Of the recipes that are as fast as the fastest, the first is used: they are in the order of what they
        ask of a person.
        """
        best = self.best_recipe
        assert best is not None and best.latency_ns is not None
        bound = best.latency_ns * (1 + _AS_FAST)
        recipe = next(
            one
            for one in self.entrants
            if one.allowed and one.name != OPTIMIZED and (one.latency_ns or bound + 1) <= bound
        )
        self.use, self.remark = recipe.name, reason
        self.backend = None
        for trial in self.trials:
            if trial.script in self.kept:
                trial.end = End.BEATEN
                trial.reason += f"; beaten: {reason}"
        self.kept = []


def _number(value: float | None) -> float | None:
    """JSON has no word for what is no number."""
    return value if value is not None and math.isfinite(value) else None


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """The part of optimize.json that the search fills in."""
    own = outcome.entrant(OPTIMIZED)
    used = outcome.entrant(outcome.use)
    return {
        "use": outcome.use,
        "lines": list(used.lines) if used is not None else [],
        "remark": outcome.remark,
        "precision": outcome.precision,
        "backend": outcome.backend.name if outcome.backend is not None else None,
        "error": _number(own.error) if own is not None else None,
        "reference": outcome.reference,
        "seconds": {name: round(value, 1) for name, value in outcome.seconds.items()},
        "programs": [
            {
                "name": one.name,
                "lines": list(one.lines),
                "error": _number(one.error),
                "within_budget": one.within_budget,
                "latency_ns": one.latency_ns,
                "loop_ns": one.loop_ns,
                "reason": one.reason,
            }
            for one in outcome.entrants
        ],
        "trials": [_trial_facts(trial) for trial in outcome.trials],
        "ablations": [
            {
                "without": one.without.path.name,
                "gain": _number(one.gain),
                "dropped": one.dropped,
                "reason": one.reason,
            }
            for one in outcome.ablations
        ],
        "declined": [asdict(one) for one in outcome.declined],
        "unseen": outcome.unseen,
    }


def _trial_facts(trial: Trial) -> dict[str, Any]:
    return {
        "script": trial.script.path.name,
        "name": trial.script.name,
        "end": trial.end.value,
        "reason": trial.reason,
        "predicted_ns": trial.predicted_ns,
        "measured_ns": trial.saved_ns,
        "before_ns": trial.before_ns,
        "after_ns": trial.after_ns,
        "seconds": None if trial.seconds is None else round(trial.seconds, 1),
        "error": _number(trial.error),
        "order": [script.path.name for script in trial.order],
        "instead_of": [script.path.name for script in trial.instead_of],
        "together": [script.path.name for script in trial.together],
    }

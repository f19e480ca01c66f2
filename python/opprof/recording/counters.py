"""Hardware counters in a run folder: they are taken of a step of their own.

opprof-driver puts the values on the profile's kernels and nodes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from opprof.progress import progress
from opprof.recording.capture import Capture
from opprof.recording.library import CaptureError
from opprof.recording.metrics import Device, Metrics, derive_step
from opprof.run_folder import RunFolder
from opprof.units import counted

_COUNTED = {
    "unique": "the unique partitions",
    "all": "every kernel",
    "step": "the whole step",
}


def count(
    step: Callable[[], Any],
    folder: RunFolder,
    mode: str,
    metrics: str,
    *,
    outside: Callable[[], Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Takes the counters of one step into the run folder; returns what run.json says of them.

    `options` are Capture's. The timeline that comes with the counters has a file of its own, because noting launches for the
    passes costs time.
    """
    asked = mode.split(",")
    progress(f"taking counters of {' and '.join(_COUNTED[part] for part in asked)}")
    file = folder.counters_capture.name
    prof = Capture(folder.path, counters=mode, metrics=metrics, file=file, **options)
    try:
        with prof:
            prof.step(step, outside=outside)
    except CaptureError as error:
        # The rest of the profile needs no counters.
        progress(f"no counters: {error}" + (f"\n  {error.remedy}" if error.remedy else ""))
        return {"mode": mode, "metrics": metrics, "left_out": str(error)}
    step_counted = prof.steps[0]
    report, whole = step_counted.report, step_counted.whole.get("report", {})
    _show("the whole step", whole)
    _show(f"{len(step_counted.counters)} of {len(step_counted.launches)} kernels", report)
    for name, reason in {**whole.get("absent", {}), **report.get("absent", {})}.items():
        progress(f"{name} is left out: {reason}")
    return {"metrics": metrics, **prof.counter_facts()}


def step_counters(counted: Mapping[str, Any], metrics: Metrics) -> dict[str, Any]:
    """What injected/counted_steps.py left of the steps of a program, as counters.json has it."""
    if "failed" in counted:
        report = {"failed": counted["failed"]}
        steps = [{"step": 0, "launches": [], "counters": [], "report": report}]
        return {"version": 1, "made_of": metrics.made_of, "steps": steps}
    report = {
        **counted["report"],
        "counted_steps": counted["counted"],
        "time": "of the range, from the first launch of a step to the end of its last kernel",
    }
    whole = derive_step(Device(**counted["device"]), counted["raw"], None)
    step = {
        "step": counted["counted"][-1],
        "launches": [],
        "counters": [],
        "whole": {**whole, "report": report},
        "report": {},
    }
    return {"version": 1, "made_of": metrics.made_of, "steps": [step]}


def _show(what: str, report: Mapping[str, Any]) -> None:
    if "total_seconds" in report:
        passes = counted(report["passes"], "pass", "passes")
        progress(f"{what}, {passes}, {report['total_seconds']:.2f} s")

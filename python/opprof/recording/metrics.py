"""The hardware counters that opprof collects, and the rates it derives from them.

Raw counters are few and share passes; composite metrics of CUPTI cost a pass or more each, and are only collected when
they are named. Formulas are in docs/capture.md.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opprof.errors import OpprofError

#: Collected beside DEFAULT only when a kernel of the step has local memory: otherwise it is zero by construction.
LOCAL_MEMORY = "l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum"

#: The raw counters that each derived value is made of. All but one share a pass on Hopper (GH100): the L2 hit rate comes from tag
#: lookups, because the sector hits of the L2 need a pass of their own, and DRAM writes from dram__bytes_write, which shares the
#: pass of dram__bytes_read.
NEEDS: dict[str, tuple[str, ...]] = {
    "time_ns": ("gpu__time_duration.sum",),
    "dram_read_bytes": ("dram__bytes_read.sum",),
    "dram_write_bytes": ("dram__bytes_write.sum",),
    "dram_throughput_pct": ("dram__bytes.avg.pct_of_peak_sustained_elapsed",),
    "memory_throughput_pct": (
        "dram__bytes.avg.pct_of_peak_sustained_elapsed",
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
        "l1tex__t_sectors.avg.pct_of_peak_sustained_elapsed",
    ),
    "l1_throughput_pct": ("l1tex__t_sectors.avg.pct_of_peak_sustained_elapsed",),
    "l1_hit_pct": ("l1tex__t_sectors.sum", "l1tex__t_sectors_lookup_hit.sum"),
    "l2_hit_pct": ("lts__t_tag_requests.sum", "lts__t_tag_requests_hit.sum"),
    "sm_throughput_pct": (
        "smsp__issue_active.sum",
        "sm__pipe_tensor_cycles_active.sum",
        "sm__cycles_elapsed.max",
    ),
    "tensor_pipe_pct": ("sm__pipe_tensor_cycles_active.sum", "sm__cycles_active.sum"),
    "active_cycles": ("sm__cycles_active.sum",),
    "achieved_occupancy_pct": ("sm__warps_active.sum", "sm__cycles_active.sum"),
    "warp_cycles_per_issue": ("sm__warps_active.sum", "smsp__issue_active.sum"),
    "issue_active_pct": ("smsp__issue_active.sum", "sm__cycles_active.sum"),
    "instructions": ("smsp__inst_executed.sum",),
    "ipc": ("smsp__inst_executed.sum", "sm__cycles_active.sum"),
    "threads_per_warp": ("smsp__thread_inst_executed.sum", "smsp__inst_executed.sum"),
    "registers": (),
    "local_memory_wavefronts": (LOCAL_MEMORY,),
    "dynamic_shared_bytes": (),
}

#: Every raw counter that values are made of, but for local memory's.
DEFAULT = tuple(
    dict.fromkeys(name for names in NEEDS.values() for name in names if name != LOCAL_MEMORY)
)

SETS: dict[str, tuple[str, ...]] = {
    "default": DEFAULT,
    "roofline": (
        *DEFAULT,
        "sm__inst_executed_pipe_tensor.sum",
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "lts__t_bytes.sum",
        "l1tex__t_bytes.sum",
    ),
    "memory": (
        *DEFAULT,
        LOCAL_MEMORY,
        "lts__t_sectors_op_read.sum",
        "lts__t_sectors_op_write.sum",
        "lts__t_sectors_lookup_hit.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        "l1tex__data_bank_conflicts_pipe_lsu.sum",
    ),
    "stalls": (
        *DEFAULT,
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio",
        "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio",
    ),
    "pipes": (
        *DEFAULT,
        "sm__inst_executed_pipe_alu.sum",
        "sm__inst_executed_pipe_fma.sum",
        "sm__inst_executed_pipe_fp64.sum",
        "sm__inst_executed_pipe_xu.sum",
        "sm__inst_executed_pipe_lsu.sum",
        "sm__inst_executed_pipe_tensor.sum",
    ),
}

#: Those of a whole step: what a kernel is launched with is none of its values, and how much of the time the multiprocessors had
#: work at all is one that only a range with gaps has.
STEP_NEEDS: dict[str, tuple[str, ...]] = {
    **{name: needed for name, needed in NEEDS.items() if needed},
    "sm_active_pct": ("sm__cycles_active.sum", "sm__cycles_elapsed.max"),
}

#: Schedulers of a multiprocessor, each with a tensor core, on every architecture that the range profiler knows. Counters of
#: both sum over them, whether they are the `smsp`'s or the `sm`'s.
_SCHEDULERS_PER_SM = 4


@dataclass(frozen=True)
class Device:
    """What formulas need to know of the device."""

    name: str
    sm_count: int
    warps_per_sm: int


def resolve(metrics: str | Sequence[str]) -> list[str]:
    """Turns the name of a set, or names of metrics, or both separated by commas, into metric names."""
    parts = metrics.split(",") if isinstance(metrics, str) else list(metrics)
    names: list[str] = []
    for part in (p.strip() for p in parts):
        if part and part not in SETS and "__" not in part:
            known = [*SETS, *dict.fromkeys(name for names in SETS.values() for name in names)]
            near = difflib.get_close_matches(part, known, 3, 0.5)
            raise OpprofError(
                f"{part!r} is neither a set of metrics nor a metric of CUPTI"
                + (f"; near names: {', '.join(near)}" if near else ""),
                remedy=f"sets: {', '.join(SETS)}; metrics have a unit before their name, as dram__bytes_read.sum",
            )
        for name in SETS.get(part, (part,)):
            if name and name not in names:
                names.append(name)
    if not names:
        raise OpprofError("no metric is named", remedy=f"sets: {', '.join(SETS)}")
    return names


def _ratio(numerator: float, denominator: float) -> float | None:
    if not denominator or math.isnan(numerator) or math.isnan(denominator):
        return None
    return numerator / denominator


def derive(
    raw: Mapping[str, float],
    device: Device,
    *,
    registers: int | None = None,
    dynamic_shared: int | None = None,
    local_bytes: int | None = None,
    duration_ns: int | None = None,
) -> tuple[dict[str, float], dict[str, str]]:
    """Computes the values of the catalogue from one kernel's counters.

    Returns them by name, and the reason for each that is absent. With `duration_ns`, the kernel's own time from the
    timeline, values that are taken over the range's time are put on the kernel's: a range that is pushed and popped round
    a launch is some microseconds longer than its kernel, while its counts are the kernel's.
    """
    values: dict[str, float] = {}
    absent: dict[str, str] = {}

    def get(name: str) -> float:
        return raw.get(name, math.nan)

    time = get("gpu__time_duration.sum")
    stretch = 1.0
    if duration_ns and time > duration_ns:
        stretch = time / duration_ns
        time = float(duration_ns)
    elapsed = get("sm__cycles_elapsed.max") / stretch
    active = get("sm__cycles_active.sum")
    issue = get("smsp__issue_active.sum")
    instructions = get("smsp__inst_executed.sum")
    tensor = get("sm__pipe_tensor_cycles_active.sum")
    percents = [stretch * get(name) for name in NEEDS["memory_throughput_pct"]]
    issue_share = _ratio(issue, elapsed * device.sm_count * _SCHEDULERS_PER_SM)
    tensor_share = _ratio(tensor, elapsed * device.sm_count * _SCHEDULERS_PER_SM)

    candidates: dict[str, float | None] = {
        "time_ns": time,
        "dram_read_bytes": get("dram__bytes_read.sum"),
        "dram_write_bytes": get("dram__bytes_write.sum"),
        "dram_throughput_pct": percents[0],
        "memory_throughput_pct": max(percents) if not any(map(math.isnan, percents)) else None,
        "l1_throughput_pct": percents[2],
        "l1_hit_pct": _ratio(
            100 * get("l1tex__t_sectors_lookup_hit.sum"), get("l1tex__t_sectors.sum")
        ),
        "l2_hit_pct": _ratio(
            100 * get("lts__t_tag_requests_hit.sum"), get("lts__t_tag_requests.sum")
        ),
        "sm_throughput_pct": None
        if issue_share is None or tensor_share is None
        else 100 * max(issue_share, tensor_share),
        "tensor_pipe_pct": _ratio(100 * tensor, active * _SCHEDULERS_PER_SM),
        "active_cycles": active,
        "achieved_occupancy_pct": _ratio(
            100 * get("sm__warps_active.sum"), active * device.warps_per_sm
        ),
        "warp_cycles_per_issue": _ratio(get("sm__warps_active.sum"), issue),
        "issue_active_pct": _ratio(100 * issue, active * _SCHEDULERS_PER_SM),
        "instructions": instructions,
        "ipc": _ratio(instructions, active),
        "threads_per_warp": _ratio(get("smsp__thread_inst_executed.sum"), instructions),
        "registers": registers,
        "dynamic_shared_bytes": dynamic_shared,
        # A kernel without local memory has no wavefronts of it, whatever was collected.
        "local_memory_wavefronts": 0.0 if local_bytes == 0 else get(LOCAL_MEMORY),
    }
    for name, value in candidates.items():
        if value is not None and not math.isnan(value):
            values[name] = value
        else:
            absent[name] = _reason(raw, NEEDS[name])
    return values, absent


def derive_step(
    raw: Mapping[str, float], device: Device, *, local_bytes: int | None = None
) -> tuple[dict[str, float], dict[str, str]]:
    """The same of one range over a whole step; `local_bytes` is 0 where none of its kernels has local memory."""
    values, absent = derive(raw, device, local_bytes=local_bytes)
    for name in NEEDS.keys() - STEP_NEEDS.keys():
        absent.pop(name)
    name = "sm_active_pct"
    active, elapsed = (raw.get(needed, math.nan) for needed in STEP_NEEDS[name])
    share = _ratio(100 * active, elapsed * device.sm_count)
    if share is None:
        absent[name] = _reason(raw, STEP_NEEDS[name])
    else:
        values[name] = share
    return values, absent


def _reason(raw: Mapping[str, float], needed: Sequence[str]) -> str:
    """Why there is no value that is made of these counters."""
    missing = [name for name in needed if math.isnan(raw.get(name, math.nan))]
    if missing:
        return f"{', '.join(missing)} was not collected"
    if needed:
        return "nothing was done that it could be a share of"
    return "the launch is not in the timeline"

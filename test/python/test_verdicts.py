"""What bounds a launch by the model of costs alone, against what its counters say, of a recorded program: a GPT-2 that Inductor compiled, on an
H200 under torch.profiler and under Nsight Compute, with the columns of the page that are read. No PyTorch is needed."""

import gzip
import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

from opprof.tools import find_tool

INPUTS = Path(__file__).parents[1] / "Profile" / "Inputs"
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
LAUNCHES = json.loads(gzip.decompress((INPUTS / "gpt2.launches.json.gz").read_bytes()))

#: As many launches as a profile lists with their classes.
LISTED = 10


def profile_with(tmp_path: Path, launches: Any, *options: str) -> Any:
    """The profile of the recorded step with these launches."""
    (tmp_path / "launches.json").write_text(json.dumps(launches))
    command = [find_tool("opprof-translate"), "--attribute-profile"]
    command += [str(INPUTS / "gpt2.trace.json.gz"), f"--launches={tmp_path}/launches.json"]
    done = subprocess.run([*command, *options], capture_output=True, check=True, timeout=120)
    return json.loads(done.stdout)


def verdicts(tmp_path: Path, *options: str) -> dict[int, tuple[str, str]]:
    """The class of each launch that has a model, and where it is from. Of the others, each time, the map says no work."""
    found = {}
    for first in range(0, len(LAUNCHES["launches"]), LISTED):
        launches = [
            {k: v for k, v in launch.items() if k != "flops" or at // LISTED == first // LISTED}
            for at, launch in enumerate(LAUNCHES["launches"])
        ]
        profile = profile_with(tmp_path, {**LAUNCHES, "launches": launches}, *options)
        (roofline,) = (f for f in profile["findings"] if f["id"] == "roofline")
        for placed in roofline["evidence"].get("most_above_roof", []):
            found[placed["launch"]] = placed["class"], placed["class_from"]
    return found


def l2_shares() -> dict[tuple[str, tuple[int, ...]], float]:
    """What kernels of the same program, by name and grid, took of the L2's peak at most, as ncu counted it in other runs: the page lacks it."""
    rows = json.loads(gzip.decompress((RESULTS / "counters-ncu.rows.json.gz").read_bytes()))
    shares: dict[tuple[str, tuple[int, ...]], float] = {}
    for row in itertools.chain(*rows["gpt2"]["ncu"]):
        key = row["kernel"], tuple(row["grid"])
        share = row["values"]["lts__t_sectors.avg.pct_of_peak_sustained_elapsed"]
        shares[key] = max(shares.get(key, 0), share)
    return shares


def test_the_model_says_latency_where_counters_do_and_else_unknown(tmp_path: Path) -> None:
    by_model = verdicts(tmp_path)
    latency = {launch for launch, (bound, _) in by_model.items() if bound == "latency"}
    profile = profile_with(tmp_path, LAUNCHES, f"--counters={INPUTS}/gpt2.ncu.csv.gz")
    shares = l2_shares()
    checked = set()
    for kernel in profile["kernels"]:
        if kernel.get("launch") not in latency or "metrics" not in kernel:
            continue
        name = next(key for key in shares if kernel["name"].startswith(key[0][:40]))[0]
        levels = [shares[name, tuple(kernel["grid"])]]
        for level in ("sm", "dram", "l1"):
            levels.append(kernel["metrics"][f"{level}_throughput_pct"])
        assert max(levels) < 50, kernel
        checked.add(kernel["launch"])
    # Each of them was counted, and there are some.
    assert checked == latency
    assert len(latency) == 12
    # Of the rest that is far from its roof nothing is said, where it is longer than its call.
    far_off = {bound for bound, _ in by_model.values()} - {"compute", "memory"}
    assert far_off == {"latency", "unknown", "launch"}


def test_counters_decide_where_they_can(tmp_path: Path) -> None:
    by_model = verdicts(tmp_path)
    by_both = verdicts(tmp_path, f"--counters={INPUTS}/gpt2.ncu.csv.gz")
    assert by_both.keys() == by_model.keys()
    counted = {launch for launch, (_, origin) in by_both.items() if origin == "counters"}
    # What the model leaves open counters answer; of none do they say what it says not of the rest.
    assert {launch for launch, (bound, _) in by_model.items() if bound == "unknown"} <= counted
    assert all(by_both[launch] == by_model[launch] for launch in by_model.keys() - counted)

"""Holds a profile against the trace that it was made from: python check_profile.py TRACE PROFILE [shares…]

Every kernel of the trace is in the profile once, with its start and duration to the nanosecond; sums, shares and
references agree with one another. A share such as high=100 is the least percentage of kernel time of that confidence.
Prints one line of facts.
"""

import gzip
import json
import re
import sys
from collections import Counter
from decimal import Decimal


def read_kernels(path: str) -> tuple[Counter, bool]:
    """(name, start, duration) of each kernel; of a trace without a device, none."""
    with gzip.open(path) as file:
        trace = json.load(file, parse_float=Decimal)
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    return Counter(
        (event["name"], int(event["ts"] * 1000), int(event["dur"] * 1000)) for event in kernels
    ), bool(kernels)


def main() -> None:
    trace, profile_path, *shares = sys.argv[1:]
    with open(profile_path) as file:
        profile = json.load(file)
    kernels = profile["kernels"]
    expected, on_device = read_kernels(trace)
    if on_device:
        found = Counter((k["name"], k["start_ns"], k["duration_ns"]) for k in kernels)
        assert found == expected, f"kernels differ: {found - expected} {expected - found}"
    assert kernels, "no kernels"
    assert all(kernel["explanation"] for kernel in kernels), "a kernel without an explanation"

    summary = profile["summary"]
    total = sum(kernel["duration_ns"] for kernel in kernels)
    assert summary["kernels"] == len(kernels)
    assert summary["kernel_time_ns"] == total
    by_confidence: Counter = Counter()
    for kernel in kernels:
        by_confidence[kernel["confidence"]] += kernel["duration_ns"]
    for confidence, time in summary["attributed_ns"].items():
        assert by_confidence[confidence] == time, confidence
    assert sum(summary["attributed_ns"].values()) == total
    assert summary["busy_ns"] <= min(summary["wall_ns"], total)

    names = {(node.get("graph"), node["name"]): node for node in profile["nodes"]}
    shared = sum(node["kernel_time_ns"] for node in profile["nodes"])
    joined = sum(kernel["duration_ns"] for kernel in kernels if kernel["nodes"])
    assert shared == joined, f"nodes have {shared} ns, their kernels {joined} ns"
    for kernel in kernels:
        for node in kernel["nodes"]:
            key = (None, node) if isinstance(node, str) else (node["graph"], node["name"])
            assert kernel["id"] in names[key]["kernels"]
    # The join is by hash and order; that a generated kernel has its launch's name is another witness.
    launches = {
        (launch["compiled_graph"], launch["index"]): launch for launch in profile["launches"]
    }
    for kernel in kernels:
        if kernel["name"].startswith("triton_") and "launch" in kernel:
            launch = launches[kernel["compiled_graph"], kernel["launch"]]
            assert launch["kernel"] == kernel["name"], kernel["explanation"]
    for finding in profile["findings"]:
        assert re.search(r"\d|No roofline", finding["text"]), finding["text"]

    for share in shares:
        confidence, _, least = share.partition("=")
        part = 100 * by_confidence[confidence] / total
        assert part >= float(least), f"{part:.2f} % of kernel time is {confidence}"
    ids = " ".join(sorted(finding["id"] for finding in profile["findings"]))
    print(f"{len(kernels)} kernels, {total} ns, {summary['steps_from']}, findings: {ids}")


if __name__ == "__main__":
    main()

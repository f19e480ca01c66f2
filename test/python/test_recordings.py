"""What goes into a reader comes out: each recorded file, counted by Python's own json, sqlite3, csv and struct, against the profile that
`opprof report --json` prints. OPPROF_RECORDED names folders with more recordings, with colons between them."""

import csv
import functools
import gzip
import io
import json
import os
import random
import sqlite3
import struct
import subprocess
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from driver_runs import driver, error_of, profile_of
from nsys_exports import VERSIONS, write_export

INPUTS = Path(__file__).parents[1] / "Profile" / "Inputs"

#: A kernel or copy: its kind, name, device, stream, when it began and how long it took in nanoseconds.
Ran = tuple[str, str, int, int | None, int, int]


@dataclass
class Counted:
    """What a file holds."""

    ran: Counter[Ran] = field(default_factory=Counter)
    #: Calls in which the host waits: when they began and how long they took.
    waits: Counter[tuple[int, int]] = field(default_factory=Counter)
    overheads: Counter[tuple[int, int]] = field(default_factory=Counter)
    #: Where the recorder gives copies no names, opprof makes them.
    copies_have_names: bool = True
    #: What only counts has no timeline.
    has_timeline: bool = True
    #: What the notes have to say of what was left out.
    left_out: str = ""
    #: Whether `waits` and `overheads` are all that there are.
    host_is_counted: bool = True


def unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


# ----------------------------------------------------------------------------------------------------------------------
# Traces of torch.profiler
# ----------------------------------------------------------------------------------------------------------------------

DEVICE_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}


def nanoseconds(microseconds: Decimal | int) -> int:
    return int((Decimal(microseconds) * 1000).to_integral_value(ROUND_HALF_UP))


def count_kineto(path: Path) -> Counted:
    trace = json.loads(unpacked(path), parse_float=Decimal)
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    counted = Counted()
    for event in events:
        kind, arguments = event.get("cat", ""), event.get("args", {})
        when = nanoseconds(event["ts"]), nanoseconds(event["dur"])
        if kind in DEVICE_KINDS:
            place = arguments.get("device", event["pid"]), arguments.get("stream")
            counted.ran[DEVICE_KINDS[kind], event["name"], *place, *when] += 1
        elif kind.endswith(("_runtime", "_driver")) and "Synchronize" in event["name"]:
            counted.waits[when] += 1
        elif kind == "overhead":
            counted.overheads[when] += 1
    if not counted.ran:
        count_host(events, counted)
    return counted


def count_host(events: list[Any], counted: Counted) -> None:
    """Without a GPU what ran are the operators of calls of compiled graphs that lie in no other one, each on its thread."""
    threads = defaultdict(list)
    for event in events:
        is_call = event["name"].startswith("## Call CompiledFxGraph")
        if event["cat"] == "cpu_op" or is_call:
            start, duration = nanoseconds(event["ts"]), nanoseconds(event["dur"])
            threads[event["pid"], event["tid"]].append((start, -duration, is_call, event["name"]))
    for thread, calls in enumerate(threads.values()):
        call_end = end = -1
        for start, duration, is_call, name in sorted(calls):
            if is_call:
                call_end = start - duration
            elif end <= start < call_end:
                end = start - duration
                counted.ran["kernel", name, 0, thread, start, -duration] += 1


# ----------------------------------------------------------------------------------------------------------------------
# Exports of Nsight Systems
# ----------------------------------------------------------------------------------------------------------------------


def count_nsys(path: Path) -> Counted:
    counted = Counted(copies_have_names=False)
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as run:
        tables = {name for (name,) in run.execute("SELECT name FROM sqlite_master")}

        def rows(table: str, columns: str) -> Iterator[Any]:
            name = f"CUPTI_ACTIVITY_KIND_{table}" if table.isupper() else table
            yield from run.execute(f"SELECT {columns} FROM {name}") if name in tables else ()

        names = dict(run.execute("SELECT id, value FROM StringIds"))
        place = "start, end - start, deviceId, streamId"
        for name, start, duration, device, stream in rows("KERNEL", f"demangledName, {place}"):
            counted.ran["kernel", names[name], device, stream, start, duration] += 1
        for kind in ("memcpy", "memset"):
            for start, duration, device, stream in rows(kind.upper(), place):
                counted.ran[kind, "", device, stream, start, duration] += 1
        for name, start, duration in rows("RUNTIME", "nameId, start, end - start"):
            if "Synchronize" in names[name]:
                counted.waits[start, duration] += 1
        for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
            if table in tables:
                counted.overheads.update(run.execute(f"SELECT start, end - start FROM {table}"))
    return counted


# ----------------------------------------------------------------------------------------------------------------------
# Captures of opprof, by docs/formats/capture.md
# ----------------------------------------------------------------------------------------------------------------------

STRINGS, KERNELS, COPIES, SETS, MARKS = 2, 3, 4, 5, 15


def chunks_of(content: bytes) -> Iterator[tuple[int, bytes, int]]:
    """The type of each chunk, its payload, and how long its records are."""
    at = struct.unpack_from("<I", content, 12)[0]
    while at + 24 <= len(content):
        magic, kind, size, _, record = struct.unpack_from("<4sIIII", content, at)
        assert magic == b"CHNK"
        yield kind, content[at + 24 : at + 24 + size], record
        at += 24 + (size + 7) // 8 * 8


def count_capture(path: Path) -> Counted:
    """Without what ran between marks of warm-up, which the notes count."""
    counted = Counted(copies_have_names=False, host_is_counted=False)
    names: dict[int, str] = {}
    marks: list[tuple[int, int, int]] = []
    for kind, payload, record in chunks_of(unpacked(path)):
        if kind == STRINGS:
            at = 0
            while at < len(payload):
                number, size = struct.unpack_from("<II", payload, at)
                names[number] = payload[at + 8 : at + 8 + size].decode()
                at += 8 + size
        for at in range(0, len(payload), record or len(payload)):
            if kind == MARKS:
                marks.append(struct.unpack_from("<Q8xII", payload, at))
            elif kind in (KERNELS, COPIES, SETS):
                counted.ran[ran_in_capture(kind, payload[at : at + record], names)] += 1
    warm_up = sorted(
        time for time, kind, name in marks if kind in (1, 2) and names.get(name) == "warm-up"
    )
    before = counted.ran.total()
    for begin, end in zip(warm_up[::2], warm_up[1::2], strict=True):
        counted.ran = Counter(
            {ran: n for ran, n in counted.ran.items() if not begin <= ran[4] <= end}
        )
    if dropped := before - counted.ran.total():
        counted.left_out = f"{dropped} kernels, copies and sets before the first step are left out"
    return counted


def ran_in_capture(kind: int, record: bytes, names: dict[int, str]) -> Ran:
    start, end = struct.unpack_from("<QQ", record)
    if kind == KERNELS:
        name, device, _, stream = struct.unpack_from("<IIII", record, 32)
        return "kernel", demangled(names[name]), device, stream, start, end - start
    device, _, stream = struct.unpack_from("<III", record, 32)
    return "memcpy" if kind == COPIES else "memset", "", device, stream, start, end - start


@functools.cache
def demangled(name: str) -> str:
    return subprocess.run(
        ["c++filt", name], capture_output=True, text=True, check=True
    ).stdout.strip()


# ----------------------------------------------------------------------------------------------------------------------
# Pages of Nsight Compute
# ----------------------------------------------------------------------------------------------------------------------


def count_ncu(path: Path) -> Counted:
    """Of a raw page; times of counters have no beginning."""
    lines = unpacked(path).decode().splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith('"ID"'))
    table = list(csv.DictReader(lines[begin:]))
    unit = {"ns": 1, "us": 1000, "µs": 1000, "ms": 10**6}[table[0]["gpu__time_duration.sum"]]
    counted = Counted(has_timeline=False)
    for row in table[1:]:
        time = int(Decimal(row["gpu__time_duration.sum"].replace(",", "")) * unit)
        counted.ran[
            "kernel", row["Kernel Name"], int(row["Device"]), int(row["Stream"]), 0, time
        ] += 1
    return counted


# ----------------------------------------------------------------------------------------------------------------------
# All of them
# ----------------------------------------------------------------------------------------------------------------------

COUNTS = {
    ".trace.json.gz": count_kineto,
    ".sqlite": count_nsys,
    ".opcap.gz": count_capture,
    ".csv.gz": count_ncu,
}


def recordings() -> list[Path]:
    folders = [INPUTS, *map(Path, filter(None, os.environ.get("OPPROF_RECORDED", "").split(":")))]
    found = [path for folder in folders for ending in COUNTS for path in folder.rglob(f"*{ending}")]
    return sorted(path for path in found if not path.name.startswith("counters"))


def ran_of(profile: Any, counted: Counted) -> Counter[Ran]:
    ran: Counter[Ran] = Counter()
    for kernel in [*profile["kernels"], *profile.get("copies", [])]:
        kind = kernel.get("kind", "kernel")
        name = kernel["name"] if kind == "kernel" or counted.copies_have_names else ""
        where = kernel["device"], kernel.get("stream")
        start = kernel["start_ns"] if counted.has_timeline else 0
        ran[kind, name, *where, start, kernel["duration_ns"]] += 1
    return ran


def idle_times(ran: Counter[Ran]) -> dict[int, list[int]]:
    """Of each device that ran kernels, how long it ran nothing each time between the first and the last that any device ran, longest
    first."""
    first = min(start for *_, start, _ in ran)
    last = max(start + duration for *_, start, duration in ran)
    found = {}
    for device in {device for kind, _, device, *_ in ran if kind == "kernel"}:
        gaps, reached = [], first
        for start, duration in sorted((r[4], r[5]) for r in ran if r[2] == device):
            gaps.append(start - reached)
            reached = max(reached, start + duration)
        gaps.append(last - reached)
        found[device] = sorted((gap for gap in gaps if gap > 0), reverse=True)
    return found


def check_idle_times(profile: Any, ran: Counter[Ran]) -> None:
    """Without steps, whose marks bound the time that is looked at."""
    busy = next(f["evidence"] for f in profile["findings"] if f["id"] == "device-busy")
    expected = idle_times(ran)
    devices = busy.get("devices", [{"device": device, **busy} for device in expected])
    assert {
        d["device"]: (
            d["idle_ns_per_step"],
            d["gaps_per_step"],
            [g["gap_ns"] for g in d["largest_gaps"]],
        )
        for d in devices
    } == {device: (sum(gaps), len(gaps), gaps[:5]) for device, gaps in expected.items()}


def check(path: Path, tmp_path: Path) -> None:
    counted = next(count for ending, count in COUNTS.items() if path.name.endswith(ending))(path)
    profile = profile_of(path, timeout=300)
    ran = ran_of(profile, counted)
    assert ran == counted.ran, [
        (ran - counted.ran).most_common(3),
        (counted.ran - ran).most_common(3),
    ]
    kernels = {key: count for key, count in counted.ran.items() if key[0] == "kernel"}
    copies = {key: count for key, count in counted.ran.items() if key[0] != "kernel"}
    summary = profile["summary"]
    for what, those in (("kernel", kernels), ("copy", copies)):
        assert summary[{"kernel": "kernels", "copy": "copies"}[what]] == sum(those.values())
        assert summary[f"{what}_time_ns"] == sum(key[5] * count for key, count in those.items())
    assert counted.left_out in "\n".join(profile.get("notes", []))
    # What kernels there are is told by confidence, the rest included: nothing is between.
    assert sum(summary["attributed_ns"].values()) == summary["kernel_time_ns"]
    if counted.host_is_counted:
        waits, overheads = profile.get("synchronizations", []), profile.get("overheads", [])
        assert Counter((s["start_ns"], s["duration_ns"]) for s in waits) == counted.waits
        assert Counter((o["start_ns"], o["duration_ns"]) for o in overheads) == counted.overheads
    if counted.has_timeline and not profile.get("steps"):
        check_idle_times(profile, counted.ran)


def test_there_are_recordings_of_each_kind() -> None:
    endings = {ending for path in recordings() for ending in COUNTS if path.name.endswith(ending)}
    assert endings >= {".trace.json.gz", ".opcap.gz"}


@pytest.mark.parametrize("path", recordings(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_a_recording_holds_comes_out(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_an_export_holds_comes_out(version: str, tmp_path: Path) -> None:
    check(write_export(tmp_path / "made.sqlite", version), tmp_path)


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_idle_times_of_each_device_come_out(devices: int, tmp_path: Path) -> None:
    """Of what overlaps on several streams, copies too, by chance."""
    chance = random.Random(devices)
    events: list[Any] = []
    for number in range(1, 100 * devices):
        place = {"device": chance.randrange(devices), "stream": chance.randrange(3)}
        kind, start = chance.choice(list(DEVICE_KINDS)), chance.randrange(1000, 3000)
        for category, name, at, length, more in (
            ("cuda_runtime", "cudaLaunchKernel", start - 900, 1, {}),
            (kind, "k", start, chance.randrange(1, 40) / 8, place),
        ):
            event = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": at}
            events.append({**event, "dur": length, "args": {"correlation": number, **more}})
    path = tmp_path / "made.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    check(path, tmp_path)


def tar_of(content: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        entry = tarfile.TarInfo("trace.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def events_of(*events: dict[str, Any]) -> bytes:
    return json.dumps({"traceEvents": events}).encode()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}',
            "an execution trace of PyTorch",
        ),
        (
            b'{"$schema": "https://www.speedscope.app/file-format-schema.json"}',
            "such as speedscope",
        ),
        (b'{"segments": [], "device_traces": []}', "a snapshot of PyTorch's memory"),
        (b"[[0, 1000], [[1, 2], [3, 4]]]", "as export_memory_timeline writes them"),
        (b"[[-1, 1, 131072, 0], [1795, 2, 65536, 4]]", "as export_memory_timeline writes them"),
        (b"main.py(1): main 2\nmain.py(1): main;net.py(3): f 4\n", "as export_stacks writes them"),
        (b"-----  -----\n Name  Self CPU %  Self CPU\n", "the text of key_averages().table()"),
        (b"\n\x10\x08\x01\x12\x0c/device:GPU:0", "the .xplane.pb of JAX and TensorFlow"),
        (tar_of(b"{}"), "a tar archive; unpack it first"),
        (b"\x80\x02}q\x00.", "a pickle of Python's, which is never opened"),
        (
            events_of(
                {
                    "ph": "X",
                    "pid": 1,
                    "tid": 2,
                    "ts": 1.5,
                    "dur": 1,
                    "name": "fusion",
                    "args": {"hlo_op": "f"},
                }
            ),
            "it looks like a trace of JAX or TensorFlow",
        ),
        (
            events_of(
                {"ph": "X", "pid": "CPU functions", "tid": 0, "ts": 0, "dur": 1, "name": "mm"}
            ),
            "as PyTorch had it before 1.8",
        ),
        (
            events_of(
                {
                    "ph": "X",
                    "pid": 1,
                    "tid": 1,
                    "ts": 0,
                    "dur": 1,
                    "name": "RunTask",
                    "cat": "devtools.timeline",
                }
            ),
            "a recording of Chrome's",
        ),
    ],
)
def test_what_people_have_beside_a_trace_is_named(
    tmp_path: Path, content: bytes, says: str, packed: bool
) -> None:
    file = tmp_path / "file"
    file.write_bytes(gzip.compress(content) if packed else content)
    said = error_of(file)
    assert says in said
    assert str(file) in said


def test_a_long_trace_of_another_tool_is_named(tmp_path: Path) -> None:
    """It is read in pieces, and is named when its text is not there any more."""
    event = {"ph": "X", "pid": 1, "tid": 1, "dur": 1, "name": "RunTask", "cat": "devtools.timeline"}
    file = tmp_path / "trace.json"
    file.write_bytes(events_of(*({**event, "ts": at} for at in range(60_000))))
    assert "60000 of 'devtools.timeline' (it looks like a recording of Chrome's" in error_of(file)


def test_a_trace_of_the_first_torch_profiler(tmp_path: Path) -> None:
    """PyTorch 1.8 to 1.11: one category for operators and marks, threads as text, and "Input dims"."""
    host = {"ph": "X", "cat": "Operator", "pid": 100, "tid": "200"}
    device = {"ph": "X", "pid": 0, "tid": "stream 7"}
    events = []
    for step in range(3):
        start = 1000 + 300 * step
        events += [
            {
                **host,
                "name": f"ProfilerStep#{step}",
                "ts": start,
                "dur": 290,
                "args": {"External id": 10 * step},
            },
            {
                **host,
                "name": "aten::mm",
                "ts": start + 10,
                "dur": 50,
                "args": {
                    "External id": 10 * step + 5,
                    "Input dims": [[32, 64], [64, 256]],
                    "Input type": ["float", "float"],
                },
            },
            {
                **host,
                "cat": "Runtime",
                "name": "cudaLaunchKernel",
                "ts": start + 20,
                "dur": 8,
                "args": {"correlation": 77 + step, "external id": 10 * step + 5},
            },
            {
                **device,
                "cat": "Kernel",
                "name": "volta_sgemm_128x64_nn",
                "ts": start + 40,
                "dur": 30,
                "args": {
                    "device": 0,
                    "stream": 7,
                    "correlation": 77 + step,
                    "external id": 10 * step + 5,
                },
            },
        ]
    path = tmp_path / "trace.json"
    path.write_bytes(events_of(*events))
    profile = profile_of(path)
    assert profile["summary"]["steps"] == 3
    assert [kernel["host_op"] for kernel in profile["kernels"]] == ["aten::mm"] * 3
    (mm,) = (op for op in profile["operators"] if op["name"] == "aten::mm")
    assert mm["input_dims"] == "[[32, 64], [64, 256]]"
    assert mm["flops"] == 2 * 32 * 64 * 256


def test_a_training_run_that_an_h200_recorded(tmp_path: Path) -> None:
    """40 steps of benchmarks/train_transformer.py under torchrun: the capture, and what the observer wrote beside it."""
    files = {name: tmp_path / f"{name}.opcap" for name in ("capture", "operators")}
    for name, source in (("capture", "train.opcap.gz"), ("operators", "train.operators.gz")):
        files[name].write_bytes(gzip.decompress((INPUTS / source).read_bytes()))
    run = {"version": 1, "program": "train_transformer.py 40", "timeline": {"by": "opprof capture"}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    done = driver(
        "profile-timeline",
        tmp_path,
        f"--timeline={files['capture']}",
        f"--operators={files['operators']}",
    )
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "profile.opprof.json").read_text())
    assert profile["summary"]["steps"] == 40
    assert profile["summary"]["steps_from"] == "optimizer_steps"
    times: Counter[str] = Counter()
    for kernel in profile["kernels"]:
        times["all"] += kernel["duration_ns"]
        for key in ("host_op", "module", "source", "part"):
            times[key] += kernel["duration_ns"] if kernel.get(key) else 0
        # The loop of the script is no function, and the optimizer is called from it.
        assert kernel.get("part") != "optimizer" or kernel["source"].endswith(
            ("train_transformer.py:36", "train_transformer.py:37")
        )
    assert all(times[key] > 0.99 * times["all"] for key in ("host_op", "module", "source", "part"))
    # The program ended inside two ranges: nobody knows for how long.
    busy = next(f for f in profile["findings"] if f["id"] == "device-busy")
    assert "ncclCommInitRankConfig" not in json.dumps(busy)
    # Each step makes 4 MiB on the host and copies them; every tenth reads the loss, which costs less than is named.
    assert {
        s["operator"] for s in profile["synchronizations"] if s.get("source", "").endswith(":40")
    } == {"aten::item"}
    (copies,) = (f for f in profile["findings"] if f["evidence"].get("source"))
    assert copies["id"] == "pageable-copies"
    assert copies["evidence"]["source"].endswith("train_transformer.py:28")
    assert copies["evidence"]["bytes_per_step"] == 4 << 20
    # The copy itself takes 255 us, and the host has more to do than the device.
    assert 255_000 <= copies["severity_ns_per_step"] <= 400_000


@pytest.mark.parametrize("waits", [True, False])
def test_collectives_of_gloo_without_stacks(tmp_path: Path, waits: bool) -> None:
    """What the call that hands a collective over takes is not the collective's time; what the program waits is."""

    def span(name: str, start: float, duration: float, tid: int = 1) -> dict[str, Any]:
        category = "user_annotation" if ":" in name and "::" not in name else "cpu_op"
        times = {"ts": start, "dur": duration, "pid": 1, "tid": tid}
        return {"ph": "X", "cat": category, "name": name, **times, "args": {}}

    events, waited, steps = [], 0.0, 4
    for step in range(steps):
        at = 10_000.0 * step
        events.append(span("aten::mm", at, 500))
        events.append(span("c10d::allreduce_", at + 600, 400))
        # It ends after the call that handed it over, or within it.
        end = at + 5_000 if waits else at + 950
        events.append(span("gloo:all_reduce", at + 700, end - at - 700, tid=2))
        events.append(span("aten::copy_", end + 50, 100))
        waited += end - (at + 1_000) if waits else 0
    trace = tmp_path / "rank0.json"
    trace.write_bytes(events_of(*events))
    profile = profile_of(trace)
    found = {finding["id"]: finding for finding in profile["findings"]}
    assert "communication" not in found
    if not waits:
        assert "collective-wait" not in found
        return
    finding = found["collective-wait"]
    assert profile["summary"]["steps"] == steps
    assert finding["severity_ns_per_step"] == waited * 1000 / steps
    assert "with_stack=True" in finding["text"] and "not known" not in finding["text"]

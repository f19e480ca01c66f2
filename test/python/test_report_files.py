"""`opprof report FILE`: any recording, told by its content; what is damaged costs what it touches. No PyTorch is needed."""

import gzip
import json
import math
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driver_runs import driver, error_of, profile_of, said

from opprof.commands.cli import main

INPUTS = Path(__file__).parents[1] / "Profile" / "Inputs"

Event = dict[str, Any]


# ----------------------------------------------------------------------------------------------------------------------
# Traces of torch.profiler
# ----------------------------------------------------------------------------------------------------------------------


def operator(name: str, at: float, duration: float, external: int, **arguments: Any) -> Event:
    return {
        **{"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": duration},
        "args": {"External id": external, **arguments},
    }


def annotation(name: str, at: float, duration: float) -> Event:
    return {
        **{"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1},
        **{"ts": at, "dur": duration},
    }


def launch(at: float, correlation: int, external: int) -> Event:
    return {
        **{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1},
        **{"ts": at, "dur": 2, "args": {"correlation": correlation, "External id": external}},
    }


def kernel(name: str, at: float, duration: float, correlation: int) -> Event:
    return {
        **{"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at, "dur": duration},
        "args": {"device": 0, "stream": 7, "correlation": correlation},
    }


def module(name: str, at: float, duration: float) -> Event:
    return {
        **{"ph": "X", "cat": "python_function", "name": f"nn.Module: {name}", "pid": 1, "tid": 1},
        **{"ts": at, "dur": duration},
    }


def events() -> list[Event]:
    """Three products with what launched them, in two modules, and a batch that was waited for before the last."""
    shapes = {
        "Input Dims": [[64, 128], [256, 128], [256]],
        "Input type": ["float", "float", "float"],
        "Concrete Inputs": ["", "", ""],
    }
    made = [module("Net_0", 0, 5000), module("Linear_0", 5, 40)]
    for number, at in enumerate((10, 60, 2000), 1):
        made += [
            operator("aten::linear", at, 20, number, **shapes),
            launch(at + 5, number, number),
            kernel("gemm", at + 30, 10.5, number),
        ]
    return [*made, annotation("enumerate(DataLoader)#_Iter.__next__", 120, 1870)]


def text_of(made: list[Event], **keys: Any) -> str:
    return json.dumps({"schemaVersion": 1, "traceEvents": made, **keys}, indent=1)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Writes a file of the test."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


Write = Callable[[str, str | bytes], Path]


def test_a_bare_trace_shows_operators_modules_and_gaps(write: Write) -> None:
    trace = write("any.name", text_of(events()))
    profile = profile_of(trace)
    assert profile["summary"]["kernels"] == 3
    assert profile["summary"]["kernel_time_ns"] == 3 * 10500
    (linear,) = profile["operators"]
    assert linear["name"] == "aten::linear"
    assert (linear["calls"], linear["kernels"], linear["kernel_time_ns"]) == (3, 3, 31500)
    # By the model: two operations for each of 64 × 128 × 256, and four bytes for each element.
    assert linear["flops"] == 2 * 64 * 128 * 256
    assert linear["bytes_read"] == 4 * (64 * 128 + 256 * 128 + 256)
    assert linear["bytes_written"] == 4 * 64 * 256
    assert [k["module"] for k in profile["kernels"]] == ["Net_0.Linear_0", "Net_0", "Net_0"]
    page = driver("report", "--width=120", "--", trace).stdout.decode()
    assert "aten::linear [64, 128] [256, 128] [256]" in page
    assert "Net_0.Linear_0" in page
    busy = next(f for f in profile["findings"] if f["id"] == "device-busy")
    assert busy["evidence"]["largest_gaps"][0]["host"].startswith("enumerate(DataLoader)")
    assert "enumerate(DataLoader)" in busy["text"]


def on_a_cpu(gap: float, *, count: int = 40) -> list[Event]:
    """Operators of 50 µs, so far apart."""
    return [operator("aten::mm", number * (50 + gap), 50, number) for number in range(count)]


def test_data_loading_is_named_without_stacks(write: Write) -> None:
    made = [*on_a_cpu(1000), annotation("enumerate(DataLoader)#_Single.__next__", 60, 30_000)]
    (found,) = [
        f
        for f in profile_of(write("t.json", text_of(made)))["findings"]
        if f["id"] == "data-loading-waits"
    ]
    assert found["severity_ns_per_step"] == 30_000_000
    text = said("report", "--width=200", "--", write("t.json", text_of(made))).stdout
    assert "Give the DataLoader workers" in text and "torch.compile fuses" not in text


def test_data_loading_costs_a_gpu_what_it_is_idle(write: Write) -> None:
    loading = annotation("enumerate(DataLoader)#_Iter.__next__", 20, 9_000)

    def found(duration: float) -> list[Any]:
        made = [operator("aten::mm", 10, 8, 1), launch(12, 1, 1), kernel("gemm", 20, duration, 1)]
        made += [
            operator("aten::mm", 9_990, 8, 2),
            launch(9_992, 2, 2),
            kernel("gemm", 10_000, 20, 2),
        ]
        profile = profile_of(write("t.json", text_of([*made, loading])))
        return [f for f in profile["findings"] if f["id"] == "data-loading-waits"]  # fmt: skip

    (idle,) = found(6_000)
    assert idle["severity_ns_per_step"] == 3_980_000
    assert "would save about 3.98 ms" in idle["text"]
    assert not found(9_500)


@pytest.mark.parametrize(
    ("gap", "part"), [(20, "Call less: torch.compile"), (1000, "what the program does between")]
)
def test_idle_time_of_a_cpu_is_calls_only_where_gaps_are_short(
    gap: float, part: str, write: Write
) -> None:  # fmt: skip
    trace = write("t.json", text_of(on_a_cpu(gap)))
    assert part in " ".join(said("report", "--width=200", "--", trace).stdout.split())
    # What is explained is of this run, where nothing is launched.
    explained = " ".join(
        said("explain", f"--run={trace}", "--width=200", "device-busy").stdout.split()
    )
    assert part in explained
    assert "CUDA graph" not in explained


def test_time_of_a_function_of_autograd_is_not_said_to_be_outside_of_operators(
    write: Write,
) -> None:
    """What it takes beside the operators that it calls is in none of them, and not outside of all."""
    function = operator("autograd::engine::evaluate_function: MulBackward0", 100, 900, 2)
    made = [operator("aten::mm", 0, 50, 1), function, operator("aten::mul", 110, 50, 3)]
    (text,) = [
        f["text"]
        for f in profile_of(write("t.json", text_of(made)))["findings"]
        if f["id"] == "wall-time"
    ]
    assert "2 operators compute for 100.0 µs" in text
    assert text.endswith(" none does.")


def test_a_trace_of_a_loading_worker_says_so(write: Write) -> None:
    name = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "ts": 0}
    made = [{**name, "args": {"name": "thread 7 (pt_data_worker)"}}, *on_a_cpu(1000)]
    notes = profile_of(write("t.json", text_of(made)))["notes"]
    assert any(note.startswith("recorded in a worker of a DataLoader") for note in notes)
    for packed in (gzip.compress(text_of(made).encode()), json.dumps(made).encode()):
        assert profile_of(write("t", packed))["notes"] == notes


def test_a_profile_made_of_a_trace_is_shown_as_the_trace_is(write: Write) -> None:
    trace = write("t.json", text_of(events()))
    made = driver("report", "--json", "--", trace).stdout
    profile = write("p.json", made)
    assert driver("report", "--json", "--", profile).stdout == made
    assert driver("report", "--", profile).stdout == driver("report", "--", trace).stdout


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(events()),
        "\ufeff" + text_of(events()),
        "\n\t " + text_of(events()),
        json.dumps({"traceEvents": events(), "distributedInfo": {"rank": 3, "world_size": 8}}),
        json.dumps({"distributedInfo": [], "traceEvents": events()}),
    ],
    ids=["bare array", "byte order mark", "white space", "rank last", "odd distributedInfo"],
)
def test_every_form_of_a_whole_trace_is_read(content: str, write: Write) -> None:
    for form in (content.encode(), gzip.compress(content.encode())):
        profile = profile_of(write("t", form))
        assert profile["summary"]["kernel_time_ns"] == 31500
        assert not any("damaged" in note or "cut" in note for note in profile["notes"])


#: Of the eight events with interest in the middle product, one is damaged so; the kernel of another product stays.
DAMAGES: dict[str, Callable[[str], str]] = {
    "NaN as time": lambda t: t.replace('"ts": 90', '"ts": NaN'),
    "Infinity as duration": lambda t: t.replace('"dur": 10.5', '"dur": Infinity', 1),
    "minus infinity": lambda t: t.replace('"ts": 90', '"ts": -Infinity'),
    "null as time": lambda t: t.replace('"ts": 90', '"ts": null'),
    "text as time": lambda t: t.replace('"ts": 90', '"ts": "soon"'),
    "list as time": lambda t: t.replace('"ts": 90', '"ts": [90]'),
    "object as time": lambda t: t.replace('"ts": 90', '"ts": {"at": 90}'),
    "no time": lambda t: t.replace('"ts": 90,', ""),
    "two times": lambda t: t.replace('"ts": 90', '"ts": 90, "ts": 91'),
    "time beyond clocks": lambda t: t.replace('"ts": 90', '"ts": 1e40'),
    "negative duration": lambda t: t.replace('"dur": 10.5', '"dur": -1', 1),
    "duration of lifetimes": lambda t: t.replace('"dur": 10.5', '"dur": 9e15', 1),
    "number as name": lambda t: t.replace('"gemm"', "7", 1),
    "no name": lambda t: t.replace('"name": "gemm",', "", 1),
    "name twice": lambda t: t.replace('"name": "gemm",', '"name": "a", "name": "b",', 1),
    "number as phase": lambda t: t.replace(
        '"ph": "X",\n   "cat": "kernel"', '"ph": 1,\n   "cat": "kernel"', 1
    ),
    "list as category": lambda t: t.replace('"cat": "kernel"', '"cat": []', 1),
    "list as args": lambda t: t.replace(
        '"args": {\n    "device": 0', '"args": [0], "x": {\n    "device": 0', 1
    ),
    "an event that is a number": lambda t: t.replace('"traceEvents": [', '"traceEvents": [7,'),
    "an event that is a list": lambda t: t.replace('"traceEvents": [', '"traceEvents": [[{}],'),
    "an event that is null": lambda t: t.replace('"traceEvents": [', '"traceEvents": [null,'),
    "bad escape in a name": lambda t: t.replace('"gemm"', '"ge\\xmm"', 1),
    "quote that does not end": lambda t: t.replace('"gemm",', '"gemm,', 1),
    "quote that does not begin": lambda t: t.replace('"gemm",', 'gemm",', 1),
    "comma missing inside": lambda t: t.replace('"gemm",', '"gemm"', 1),
    "colon missing": lambda t: t.replace('"name": "gemm"', '"name" "gemm"', 1),
    "brace too many": lambda t: t.replace('"gemm",', '"gemm"},', 1),
    "brace too few": lambda t: t.replace(
        '"correlation": 1\n   }\n  }', '"correlation": 1\n   }', 1
    ),
    "bracket too many": lambda t: t.replace('"gemm",', '"gemm"],', 1),
    "bytes that are no text": lambda t: t.replace('"gemm"', '"ge\udcffmm"', 1),
    "NUL in a name": lambda t: t.replace('"gemm"', '"ge\0mm"', 1),
    "line break in a name": lambda t: t.replace('"gemm"', '"ge\nmm"', 1),
    "words between events": lambda t: t.replace('"traceEvents": [', '"traceEvents": [oh no, ', 1),
    "comma twice": lambda t: t.replace('"traceEvents": [', '"traceEvents": [,,', 1),
    "comma at the end": lambda t: t.replace("\n ]\n}", ",\n ]\n}"),
    "no end of the list": lambda t: t.replace("\n ]\n}", "\n"),
    "no end of the object": lambda t: t.replace("\n ]\n}", "\n ]\n"),
    "rubbish after the list": lambda t: t.replace("\n ]\n}", "\n ], rubbish }"),
    "deep nesting": lambda t: t.replace(
        '"traceEvents": [', '"traceEvents": [' + "[" * 3000 + "]" * 3000 + ",", 1
    ),
    "cut in an event": lambda t: t[: t.rindex('"enumerate') + 5],
    "cut in a number": lambda t: t[: t.rindex('"dur": 10.5') + 8],
    "cut between events": lambda t: t[: t.rindex('{\n   "ph"')],
    "zeros at the end": lambda t: t[: t.rindex('"enumerate')] + "\0" * 64,
}


def test_there_are_forty_kinds_of_damage() -> None:
    assert len(DAMAGES) >= 40


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_costs_what_it_touches(damage: Callable[[str], str], write: Write) -> None:
    text = text_of(events())
    damaged = damage(text)
    assert damaged != text
    profile = profile_of(write("t.json", damaged.encode(errors="surrogateescape")))
    assert profile["summary"]["kernels"] >= 2
    assert all(kernel["duration_ns"] == 10500 for kernel in profile["kernels"])
    # What is lost is said, unless nothing is: commas between events and rubbish behind them hold nothing.
    if profile["summary"]["kernels"] < 3:
        assert any("damaged and left out" in note or "cut off" in note for note in profile["notes"])


def many_events() -> list[Event]:
    """Kernels that are told apart by name and time, and what launched them."""
    return [
        event
        for number in range(120)
        for event in (
            launch(10 * number, number + 1, 0),
            kernel(f"k{number}", 10 * number + 5, 1 + number / 8, number + 1),
        )
    ]


def kernels_in(made: list[Event]) -> list[tuple[str, int, int]]:
    """Names, beginnings and durations in nanoseconds."""
    return [
        (event["name"], round(event["ts"] * 1000), round(event["dur"] * 1000))
        for event in made
        if event["cat"] == "kernel"
    ]


def kernels_of(profile: Any) -> list[tuple[str, int, int]]:
    return [(k["name"], k["start_ns"], k["duration_ns"]) for k in profile["kernels"]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, "soon", [], {}, True])
def test_each_damaged_event_costs_itself_and_is_counted(bad: Any, write: Write) -> None:
    """NaN and infinity are no JSON, and their text is read event by event; the rest is JSON with a value of another type."""
    choose = random.Random(repr(bad))
    for count in (1, 7, 60):
        made = many_events()
        damaged = set(choose.sample(range(len(made)), count))
        whole = [event for place, event in enumerate(made) if place not in damaged]
        for place in damaged:
            made[place] = {**made[place], choose.choice(["ts", "dur"]): bad}
        for text in (text_of(made), json.dumps(made), "\ufeff" + text_of(made)):
            profile = profile_of(write("t.json", text))
            assert kernels_of(profile) == kernels_in(whole)
            (note,) = [
                note for note in profile["notes"] if "left out" in note and "damaged" in note
            ]
            lost = f"{count} event{'s' if count > 1 else ''} of {len(made)} "
            assert note.startswith(lost), note


def test_a_cut_costs_what_does_not_end_before_it(write: Write) -> None:
    """Of every length; an event is whole where the text up to there ends with its brace or behind it."""
    made = many_events()
    pieces = [json.dumps(event) for event in made]
    for head in ('{"schemaVersion": 1, "traceEvents": [', "["):
        text = head + ", ".join(pieces) + ("]}" if head[0] == "{" else "]")
        ends = [
            len(head) + sum(len(p) + 2 for p in pieces[:n]) - 2 for n in range(1, len(pieces) + 1)
        ]
        for length in range(len(head) + 200, len(text) - 2, 997):
            whole = [event for event, end in zip(made, ends, strict=True) if end <= length]
            profile = profile_of(write("t.json", text[:length]))
            assert kernels_of(profile) == kernels_in(whole), length
            notes = "\n".join(profile["notes"])
            assert "it was cut off" in notes
            is_inside = len(whole) < len(made) and length > ends[len(whole) - 1] + 2
            assert ("1 event of" in notes) == is_inside, length


def test_a_cut_before_the_kernels_makes_no_program_of_the_cpu(write: Write) -> None:
    """The profiler writes what the host did first: its operators are not what ran."""
    made = [event for event in events() if event["cat"] != "kernel"]
    text = text_of(made)
    path = write("cut.json", text[: text.rindex('"dur"')])
    profile = profile_of(path)
    assert profile["summary"]["kernels"] == 0
    assert any("kernels, and none is in the file" in note for note in profile["notes"])
    assert not any(device["kind"] == "cpu" for device in profile["devices"])
    assert "none is in the file" in driver("report", "--", path).stdout.decode()


def test_a_cut_gzip_file_is_read_up_to_there(write: Write) -> None:
    many = [
        event
        for number in range(2000)
        for event in (
            launch(10 * number, number + 1, 0),
            kernel(f"k{number}", 10 * number + 5, 2.5, number + 1),
        )
    ]
    packed = gzip.compress(text_of(many).encode())
    for part in (0.3, 0.6, 0.99):
        profile = profile_of(write("t.json.gz", packed[: int(len(packed) * part)]))
        count = profile["summary"]["kernels"]
        assert 0.15 * part * 2000 < count < 2000
        assert profile["summary"]["kernel_time_ns"] == 2500 * count
        assert any("gzip data is damaged or cut off" in note for note in profile["notes"])


def test_what_is_no_recording_is_named(write: Write) -> None:
    for content, part in (
        (b"", "empty"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"import torch\n", "no JSON object"),
        (b"[]", "no event"),
        (b"{}", "this is not a profile"),
        (b'{"traceEvents": 3}', "must be an array"),
        (b'{"traceEvents": []', "not valid JSON"),
        (b"\x1f\x8b", "gzip"),
        (b"[" * 5000, "not valid JSON"),
    ):
        assert part in error_of(write("any", content)), content


def test_ranks_are_set_side_by_side(write: Write) -> None:
    files = []
    for rank in range(2):
        info = {"rank": rank, "world_size": 2}
        files.append(write(f"rank{rank}.json", text_of(events(), distributedInfo=info)))
    assert [p["sources"][0]["rank"] for p in profile_of(*files)] == [0, 1]
    page = driver("report", "--", *files).stdout.decode()
    assert "2 recordings" in page
    assert "the slowest takes" in page
    folder = driver("report", "--", files[0].parent).stdout.decode()
    assert "2 recordings" in folder
    assert b"a page shows one" in driver("report", "--html=x", "--", *files).stderr


def test_one_rank_names_the_files_of_the_others(write: Write) -> None:
    texts = [
        text_of(events(), distributedInfo={"rank": rank, "world_size": 2}) for rank in range(2)
    ]

    def note_of(file: Path) -> str:
        (note,) = (text for text in profile_of(file)["notes"] if "alone" in text)
        page = driver("report", "--width=300", "--", file).stdout.decode()
        assert note in " ".join(page.split())
        return str(note)

    first = write("vm_17.1690001.pt.trace.json", texts[0])
    # Others in the folder are no recordings of this program.
    write("other_17.1690001.pt.trace.json", texts[1])
    assert note_of(first) == (
        "rank 0 of 2 alone: which one the others wait for is said by `opprof report FILE...` with the files of all of them"
    )
    second = write("vm_18.1690001.pt.trace.json", texts[1])
    folder = first.parent
    assert note_of(second) == (
        "rank 1 of 2 alone: which one the others wait for is said by "
        f"`opprof report {folder}/vm_*.1690001.pt.trace.json`"
    )
    # What was printed says it once, and among others nothing of it.
    printed = write("p.json", driver("report", "--json", "--", first).stdout)
    assert "`opprof report FILE...`" in note_of(printed)
    assert not any("alone" in note for p in profile_of(printed, second) for note in p["notes"])
    # No shell is to run a name.
    odd = write("a;b 0.json", texts[0])
    write("a;b 1.json", texts[1])
    assert "`opprof report FILE...`" in note_of(odd)


def test_ranks_that_wait_on_the_host_are_compared(write: Write) -> None:
    """gloo's threads run collectives beside those that ask for them, and no kernel says so."""

    def of_rank(rank: int, waited: float) -> Path:
        made = []
        for step, at in enumerate((0, 100_000)):
            backend = {**annotation("gloo:all_reduce", at + 50_000 - waited, waited), "tid": 2}
            made += [
                annotation(f"ProfilerStep#{step}", at, 100_000),
                operator("aten::mm", at, 50_000 - waited - 1000, 1),
                operator("c10d::allreduce_", at + 50_000 - waited - 500, 400, 2),
                *([backend] if waited > 1000 else []),
                operator("aten::add_", at + 50_010, 20_000, 3),
            ]
        info = {"rank": rank, "world_size": 3}
        return write(f"rank{rank}.json", text_of(made, distributedInfo=info))

    files = [of_rank(0, 30_000), of_rank(1, 1000), of_rank(2, 10_000)]
    page = driver("report", "--width=100", "--", *files).stdout.decode()
    head, *rows = page.splitlines()[1:5]
    assert head.split() == ["rank", "step", "busy", "operators", "waiting"]
    assert [row.split()[-2:] for row in rows] == [["30.0", "ms"], ["0", "ns"], ["10.0", "ms"]]
    said = "the others wait for rank 1 in collectives: rank 0 spends 30.0 ms a step in them, and rank 1 0 ns"
    for width in (60, 100):
        narrow = driver("report", f"--width={width}", "--", *files).stdout.decode()
        assert said in " ".join(narrow.split())
    # Ranks that wait alike wait for no one.
    files = [of_rank(rank, 10_000) for rank in range(3)]
    assert b"the others wait" not in driver("report", "--", *files).stdout


def test_a_trace_of_an_amd_device(write: Write) -> None:
    """Names of its runtime, kinds of copies, wavefronts of 64, and rates of its ceilings."""
    made = [
        {**launch(10, 1, 0), "name": "hipExtModuleLaunchKernel", "cat": "hip_runtime"},
        {**kernel("Cijk_Ailk_Bljk_BBS_MT128x128x32_MI32x32x8x1", 20, 30, 1)},
        {**launch(60, 2, 0), "name": "hipMemcpyWithStream"},
        {**kernel("CopyHostToDevice", 70, 5, 2), "cat": "gpu_memcpy"},
        {**launch(80, 3, 0), "name": "hipDeviceSynchronize"},
    ]
    made[3]["args"]["bytes"] = 4096
    devices = [{"id": 0, "name": "AMD Instinct MI300X", "warpSize": 64, "numSms": 304}]
    profile = profile_of(write("t.json", text_of(made, deviceProperties=devices)))
    assert profile["devices"][0]["name"] == "AMD Instinct MI300X"
    assert profile["kernels"][0]["launched_at_ns"] == 10_000
    assert profile["synchronizations"][0]["name"] == "hipDeviceSynchronize"
    found = {finding["id"]: finding for finding in profile["findings"]}
    assert found["host-copies"]["evidence"]["copies_per_step"] == 1


def test_the_profilers_own_time_is_no_cost(write: Write) -> None:
    made = [
        launch(0, 1, 0), kernel("a", 10, 10, 1), launch(1, 2, 0), kernel("b", 120, 10, 2),
        {**{"ph": "X", "cat": "overhead", "name": "Activity Buffer Request", "pid": -1, "tid": 0}, "ts": 20, "dur": 60},
    ]  # fmt: skip
    profile = profile_of(write("t.json", text_of(made)))
    assert [(o["kind"], o["duration_ns"]) for o in profile["overheads"]] == [
        ("Activity Buffer Request", 60_000)
    ]
    busy = next(f for f in profile["findings"] if f["id"] == "device-busy")
    assert busy["evidence"]["idle_profiler_ns_per_step"] == 60_000
    assert busy["severity_ns_per_step"] == 40_000


def test_a_capture_in_gzip_is_read_as_far_as_it_is_whole(write: Write) -> None:
    packed = (INPUTS / "conv_block.opcap.gz").read_bytes()
    kernels = [
        profile_of(write(name, content))["kernels"]
        for name, content in (("c.opcap.gz", packed), ("c.opcap", gzip.decompress(packed)))
    ]
    assert kernels[0] == kernels[1] != []
    cut = profile_of(write("cut.opcap.gz", packed[: len(packed) * 3 // 4]))
    # Without the marks at its end its steps are not known, nor what was warm-up.
    assert cut["summary"]["kernels"] > 0
    assert any("gzip data is damaged or cut off" in note for note in cut["notes"])


def test_several_devices_are_set_side_by_side(write: Write) -> None:
    """The header speaks of the busiest one, and lists each; kernels are those of all."""
    made = [launch(0, 1, 0), kernel("a", 10, 40, 1), launch(1, 2, 0), kernel("b", 20, 10, 2)]
    made[3]["args"]["device"] = 1
    profile = profile_of(write("t.json", text_of(made)))
    assert profile["summary"]["kernel_time_ns"] == 50_000
    assert profile["summary"]["busy_ns"] == 40_000
    assert profile["summary"]["wall_ns"] == 40_000
    text = driver("report", "--width=120", "--", write("t.json", text_of(made))).stdout.decode()
    assert "device 0: 1 kernels in 40.0 µs in all, busy 100.0 %" in text
    assert "device 1: 1 kernels in 10.0 µs in all, busy 25.0 %" in text


def test_each_device_has_its_own_collectives(write: Write) -> None:
    """The figures of the busiest device are not those of all, and the last to join a collective waits for no one."""
    made = []
    for device, work in ((0, 40), (1, 25), (2, 10)):
        for number, (name, at, duration) in enumerate(
            (("gemm", 0, work), ("ncclDevKernel_AllReduce", work, 60 - work))
        ):
            correlation = 1 + 2 * device + number
            made += [launch(0, correlation, 0), kernel(name, 100 + at, duration, correlation)]
            made[-1]["args"]["device"] = device
    profile = profile_of(write("t.json", text_of(made)))
    talk = next(f for f in profile["findings"] if f["id"] == "communication")
    assert [
        (d["device"], d["ns_per_step"], d["exposed_ns_per_step"], d["waited_ns_per_step"])
        for d in talk["evidence"]["devices"]
    ] == [(0, 20_000, 20_000, 0), (1, 35_000, 35_000, 15_000), (2, 50_000, 50_000, 30_000)]
    assert "device 2 has 50.0 µs of them" in talk["text"]
    assert not any("processes made calls" in note for note in profile["notes"])
    # One rank in a file says nothing of devices.
    alone = profile_of(write("t.json", text_of(made[:4])))
    talk = next(f for f in alone["findings"] if f["id"] == "communication")
    assert "devices" not in talk["evidence"]


def test_ranks_that_were_put_into_one_file_are_told(write: Write) -> None:
    """Each has its own correlation ids and its own device 0."""
    made = events() + [{**event, "pid": event["pid"] + 10} for event in events()]
    for text in (text_of(made), json.dumps(made)):
        profile = profile_of(write("t.json", text))
        assert profile["summary"]["kernels"] == 6
        assert any(note.startswith("2 processes made calls") for note in profile["notes"])


def labelled(made: list[Event], label: str) -> list[Event]:
    """As tools that put ranks together for Perfetto write processes."""
    return [{**event, "pid": f"[{label}] {event['pid']}"} for event in made]


def numbered(made: list[Event], rank: int) -> list[Event]:
    """As others do, which number processes and calls anew."""
    return [
        {
            **event,
            "pid": event["pid"] + 1000 * rank,
            "args": {**event.get("args", {}), "rank": rank},
        }
        for event in made
    ]


@pytest.mark.parametrize("mark", [lambda m, r: labelled(m, f"TP0{r}"), numbered])
def test_ranks_that_a_tool_put_into_one_file_stay_apart(
    mark: Callable[[list[Event], int], list[Event]], write: Write
) -> None:
    """Their calls have the same numbers, their devices too; each kernel is given to its own rank's operator."""
    made = []
    for rank, name in enumerate(("aten::mm", "aten::bmm")):
        own = [annotation(f"ProfilerStep#{step}", 1000 * step, 900) for step in range(2)]
        for number in (1, 2):
            at = 1000 * (number - 1) + 100 * rank
            own += [
                operator(name, at + 5, 20, number),
                launch(at + 10, number, number),
                kernel(f"kernel of {name}", at + 40, 50, number),
            ]
        made += mark(own, rank)
    described = [{"id": 0, "name": "NVIDIA H200", "numSms": 132}]
    profile = profile_of(write("t.json", text_of(made, deviceProperties=described)))
    assert [(d["id"], d["name"]) for d in profile["devices"]] == [
        (0, "NVIDIA H200"),
        (1, "NVIDIA H200"),
    ]
    assert profile["summary"]["steps"] == 2
    assert len(profile["kernels"]) == 4
    for found in profile["kernels"]:
        op = profile["operators"][found["operator"]]["name"]
        assert found["name"] == f"kernel of {op}"
        assert found["device"] == (op == "aten::bmm")
        assert found["launched_at_ns"] == found["start_ns"] - 30_000
    (note,) = [note for note in profile["notes"] if "2 ranks are in this file" in note]
    assert "device 1 is device 0 of" in note
    assert not any("processes made calls" in note for note in profile["notes"])


def test_devices_that_are_numbered_in_another_way_are_described(write: Write) -> None:
    """AMD's recorder counts the host's processors too."""
    made = [launch(0, 1, 0), kernel("a", 10, 40, 1)]
    made[1]["args"]["device"] = 9
    alike = [{"id": n, "name": "AMD Instinct MI300X", "numSms": 304} for n in range(2)]
    for described in (alike, alike[:1]):
        profile = profile_of(write("t.json", text_of(made, deviceProperties=described)))
        assert [(d["id"], d["name"]) for d in profile["devices"]] == [(9, "AMD Instinct MI300X")]
        assert any("device 9 is not described in the file" in n for n in profile["notes"])
    unlike = [alike[0], {**alike[1], "name": "AMD Instinct MI210"}]
    (device,) = profile_of(write("t.json", text_of(made, deviceProperties=unlike)))["devices"]
    assert device["id"] == 9 and not device.get("name")


def test_times_as_texts_and_arguments_that_are_null_are_read(write: Write) -> None:
    made = [{**e, "ts": str(e["ts"]), "dur": f"{e['dur']:.3f}"} for e in events()]
    for event in made:
        if event["cat"] == "python_function":
            event["args"] = None
    profile = profile_of(write("t.json", text_of(made)))
    assert profile["summary"]["kernel_time_ns"] == 31500
    assert profile["kernels"][0]["module"] == "Net_0.Linear_0"
    assert not any("damaged" in note for note in profile["notes"])


FOREIGN: dict[str, tuple[Any, str]] = {
    "viztracer": (
        {
            "traceEvents": [
                {"ph": "X", "cat": "FEE", "name": "f", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
            ]
        },
        "1 of 'FEE'",
    ),
    "XLA": (
        {
            "traceEvents": [
                {"ph": "X", "name": "fusion", "pid": 1, "tid": 1, "ts": n, "dur": 1}
                for n in range(3)
            ]
        },
        "3 without a category",
    ),
    "apart": (
        {
            "traceEvents": [
                {"ph": ph, "cat": "kernel", "name": "k", "pid": 1, "tid": 1, "ts": 1} for ph in "BE"
            ]
        },
        "1 whose beginnings and ends are apart",
    ),
}


@pytest.mark.parametrize(("made", "part"), FOREIGN.values(), ids=FOREIGN.keys())
def test_events_of_other_tools_are_no_empty_recording(made: Any, part: str, write: Write) -> None:
    said = error_of(write("t.json", json.dumps(made)))
    assert "no operator, call or kernel, but events" in said and part in said
    # Beside the profiler's own they are nobody's concern.
    mixed = json.dumps({"traceEvents": events() + made["traceEvents"]})
    assert profile_of(write("t.json", mixed))["summary"]["kernels"] == 3


def test_a_device_that_is_not_read_makes_no_program_of_the_cpu(write: Write) -> None:
    made = [event for event in events() if event["cat"] in ("cpu_op", "python_function")]
    assert profile_of(write("t.json", text_of(made)))["devices"][0]["kind"] == "cpu"
    made.append({**kernel("fc-dtype_Float", 20, 5, 1), "cat": "mtia_ccp_events"})
    profile = profile_of(write("t.json", text_of(made)))
    assert profile["summary"]["kernels"] == 0 and profile["devices"] == []
    assert any("1 event is of a device of a kind" in note for note in profile["notes"])


def test_what_a_file_is_packed_in_is_named(write: Write) -> None:
    text = text_of(events())
    for content, part in (
        (gzip.compress(gzip.compress(text.encode())), "gzip in gzip"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstd -d"),
        (b"\xfd7zXZ\0\0\4", "xz -d"),
        (b"BZh91AY", "bunzip2"),
        (text.encode("utf-16"), "UTF-16"),
        (text.encode("utf-16-le"), "UTF-16"),
        (text.encode("utf-32"), "UTF-32"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"<!DOCTYPE html><html></html>", "HTML"),
    ):
        assert part in error_of(write("any", content)), part


def test_a_large_trace_is_read_in_pieces_as_it_is_whole(write: Write) -> None:
    many = [
        event
        for number in range(4000)
        for event in (
            launch(10 * number, number + 1, 0),
            kernel(f'k{number} {{"ph": ,', 10 * number + 5, 2.5, number + 1),
        )
    ]
    text = text_of(many, distributedInfo={"rank": 2})
    assert len(text) > 1 << 20
    profile = profile_of(write("t.json", text))
    assert profile["summary"]["kernels"] == 4000
    assert profile["sources"][0]["rank"] == 2
    assert len({kernel["name"] for kernel in profile["kernels"]}) == 4000
    cut = profile_of(write("t.json", text[: len(text) // 2]))
    assert 1990 <= cut["summary"]["kernels"] <= 2010
    assert any("cut off" in note for note in cut["notes"])


def test_no_link_leads_out_of_a_run_folder(tmp_path: Path, write: Write) -> None:
    secret = write(
        "secret.json", driver("report", "--json", "--", write("t.json", text_of(events()))).stdout
    )
    run = tmp_path / "run"
    run.mkdir()
    (run / "profile.opprof.json").symlink_to(secret)
    assert "is a link out of the run folder" in error_of(run)
    (run / "profile.opprof.json").unlink()
    (run / "inside.json").write_bytes(secret.read_bytes())
    (run / "profile.opprof.json").symlink_to("inside.json")
    assert profile_of(run)["summary"]["kernels"] == 3


# ----------------------------------------------------------------------------------------------------------------------
# What holds nothing, and what is no file
# ----------------------------------------------------------------------------------------------------------------------


def test_a_trace_without_kernels_says_what_to_record(write: Write) -> None:
    trace = write("t.json", text_of([annotation("epoch", 0, 10)]))
    for command in ("report", "top"):
        done = said(command, "--width=400", "--", trace)
        assert done.returncode == 0
        assert "the trace holds no kernels: nothing ran on a device" in done.stdout, command
        assert "ProfilerActivity.CUDA" in done.stdout
        assert "export_chrome_trace belongs there" in done.stdout


def test_a_run_that_recorded_nothing_is_told_from_a_folder_that_is_none(tmp_path: Path) -> None:
    assert "profile.opprof.json: no such file" in said("report", "--", tmp_path).stderr
    for name in ("notes.txt", "cycle0.json", "cycle1.json.gz"):
        (tmp_path / name).write_text("{}")
    hint = said("report", "--", tmp_path).stderr
    assert f"opprof report {tmp_path / 'cycle0.json'} (1 more may be some)" in hint
    assert "is no run folder" in hint
    (tmp_path / "run.json").write_text('{"version": 1}')
    for command in ("report", "top"):
        done = said(command, "--", tmp_path)
        assert done.returncode == 1
        assert "holds run.json, and no profile and no recording" in done.stderr
        assert "run that again" in done.stderr


def test_a_recording_may_come_from_stdin(write: Write) -> None:
    text = text_of(events())
    other = write("t.json", text)
    for arguments in (
        ["report", "--", "-"],
        ["report", "--json", "--", "-"],
        ["report", "--perfetto=-", "--", "-"],
        ["top", "--", "-"],
        ["explain", "--run=-", "wall-time"],
        ["diff", f"--to={other}", "--", "-"],
    ):
        done = said(*arguments, stdin=text)
        assert done.returncode == 0, done.stderr
        assert done.stdout
    assert "stdin on " in said("report", "--", "-", stdin=text).stdout
    assert "stdin: the file is empty" in said("report", "--", "-", stdin="").stderr
    twice = said("diff", "--to=-", "--", "-", stdin=text)
    assert twice.returncode == 1 and "stdin is read once" in twice.stderr


@pytest.mark.parametrize("form", ["--perfetto=-", "--json"])
def test_what_is_large_on_stdout_is_not_held_in_memory(
    form: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = write("tools/opprof-driver", "#!/bin/sh\nhead -c 300000000 /dev/zero\n")
    tool.chmod(0o755)
    monkeypatch.setenv("OPPROF_TOOLS_DIR", str(tool.parent))
    code = (
        "import re, sys\n"
        "from opprof.commands.cli import main\n"
        "status = main(['report', *sys.argv[1:]])\n"
        # What getrusage says is at least what the process that began this one held.
        "peak = re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1]\n"
        "print(status, peak, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, form, tool], capture_output=True, timeout=120
    )
    assert len(done.stdout) == 300_000_000
    status, largest = map(int, done.stderr.split())
    assert status == 0
    assert largest < 150_000, "KiB"


def test_merge_names_the_command_for_other_recordings(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write("rank0.json", text_of(events()))
    for path in (trace, trace.parent):
        assert main(["merge", str(path), "-o", str(trace.parent / "merged.json")]) == 1
        said = capsys.readouterr().err
        assert f"{path}: " in said and "capture (.opcap)" in said
        assert "`opprof report FILE...` takes the recordings of all ranks" in said


def test_a_step_lasts_until_its_kernels_end_and_a_mark_until_the_host_leaves_it(
    write: Write,
) -> None:
    """The host runs ahead: its marks are 100 µs long, and the last kernel ends 400 µs after them."""
    made = [annotation("forward (dynamo_timed)", 10, 5)]
    for step in range(3):
        at = 100 * step
        made += [annotation(f"ProfilerStep#{step}", at, 100), operator("aten::mm", at, 50, step)]
        made += [launch(at + 5, step, step), kernel("gemm", at + 50 + 150 * step, 250, step)]
    trace = write("t.json", text_of(made))
    text = " ".join(said("report", "--width=200", "--", trace).stdout.split())
    assert "a step against 100.0 µs in steady state, by their marks on the host" in text
    summary = profile_of(trace)["summary"]
    assert summary["wall_ns"] == 500_000


def test_advice_is_in_the_terms_of_what_ran(write: Write) -> None:
    """TensorRT's genericReformat:: is nothing of PyTorch's at::."""
    name = "void genericReformat::copyVectorizedKernel<double, __half>()"
    made = [kernel(name, 1000 * at, 5, at) for at in range(1, 9)]
    made += [launch(1000 * at - 10, at, at) for at in range(1, 9)]
    text = said("report", "--width=200", "--", write("t.json", text_of(made))).stdout
    assert "cudaStreamBeginCapture" in text and "reduce-overhead" not in text


def test_what_replays_a_cuda_graph_is_not_told_to_use_one(write: Write) -> None:
    call = launch(100, 5, 0)
    made = [{**call, "name": "cudaGraphLaunch"}]
    for number in range(8):
        own = kernel("void at::native::add()", 200 + 20 * number, 5, 5)
        own["args"] |= {"graph node id": number + 1}
        made.append(own)
    text = said("report", "--width=200", "--", write("t.json", text_of(made))).stdout
    advice = " ".join(text.split())
    assert "A CUDA graph replays them already" in advice
    assert "reduce-overhead" not in advice


@pytest.mark.parametrize("space", ["deep_ep", "dpsk::ep", "ep"])
def test_kernels_of_deepep_are_communication_whatever_it_was_built_as(
    space: str, write: Write
) -> None:
    made = [kernel(f"void {space}::internode::combine<8>(int*)", 1000 * i, 50, i) for i in (1, 2)]
    made += [kernel("gemm", 1000 * i + 50, 50, 10 + i) for i in (1, 2)]
    made += [launch(1000 * i - 10 + j, 10 * j + i, 0) for i in (1, 2) for j in (0, 1)]
    profile = profile_of(write("t.json", text_of(made)))
    (found,) = (f for f in profile["findings"] if f["id"] == "communication")
    assert found["severity_ns_per_step"] == 100_000

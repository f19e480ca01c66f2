"""Counters that Nsight Compute printed: `opprof report ncu.csv`, and `opprof profile --counters ncu.csv` beside a timeline. No PyTorch is needed.

The pages are made here in the forms that versions since 2019 print; a report itself needs ncu.
"""

import csv
import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driver_runs import driver, error_of, profile_of, said, stand_in

from opprof.commands.cli import main

#: What comes before the metrics, by version.
HEADS = {
    "2019": [
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Kernel Time",
        "Context",
        "Stream",
    ],
    "2023": [
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
    ],
    "NVTX": [
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
        "Kernel Name",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
    ],
}
FIXED = {
    **{"Process ID": "2497", "Process Name": "python3", "Host Name": "127.0.0.1", "Context": "1"},
    **{"Stream": "7", "Block Size": "(256, 1, 1)", "Device": "0", "CC": "9.0"},
    **{"Kernel Time": "2026-Jan-01 00:00:00"},
}
#: Name, unit, and the values of three kernels.
METRICS = [
    ("gpu__time_duration.sum", "us", ["4.288000", "2.752000", "1,012.500000"]),
    ("dram__bytes_read.sum", "Mbyte", ["1.975040", "0.000512", "3.000000"]),
    ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", ["9.659608", "11.95", "81.5"]),
    ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%", ["9.7", "12", "82"]),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", ["23.552940", "1.931471", "20.5"]),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "%", ["22.349407", "13.9", "70.1"]),
    ("smsp__inst_executed.sum", "inst", ["1,031,936", "50,688", "1,234,567"]),
    ("l1tex__t_sector_hit_rate.pct", "%", ["43.452381", "0.000000", "n/a"]),
    ("launch__registers_per_thread", "register/thread", ["40", "18", "255"]),
    ("launch__shared_mem_per_block_dynamic", "Kbyte/block", ["0.192000", "0.000000", "1.024"]),
    ("launch__shared_mem_per_block_static", "byte/block", ["0", "0", "64"]),
    ("launch__sm_count", "SM", ["132", "132", "132"]),
    ("launch__cluster_scheduling_policy", "", ["PolicySpread"] * 3),
    ("device__attribute_display_name", "", ["NVIDIA H200"] * 3),
]
KERNELS = [
    "void gemm<float, (int)3>(const T1 *, \"quoted\", T2)",
    "triton_poi_fused_relu_0",
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(Params)",
]  # fmt: skip
GRIDS = ["(256, 1, 1)", "(8, 4, 1)", "(2, 12, 4)"]


def fixed(head: list[str], kernel: int) -> list[str]:
    own = {"ID": str(kernel), "Kernel Name": KERNELS[kernel], "Grid Size": GRIDS[kernel]}
    return [own.get(key, FIXED.get(key, "")) for key in head]


def page(rows: list[list[str]], separator: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, delimiter=separator, lineterminator="\n").writerows(
        rows
    )
    return text.getvalue()


Metrics = list[tuple[str, str, list[str]]]


def raw(version: str = "2023", metrics: Metrics = METRICS) -> list[list[str]]:
    head = HEADS[version]
    rows = [head + [name for name, _, _ in metrics], [""] * len(head) + [u for _, u, _ in metrics]]
    return rows + [fixed(head, k) + [values[k] for _, _, values in metrics] for k in range(3)]


#: What the details page calls the metrics.
LABELS = {
    "gpu__time_duration.sum": "Duration",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "Memory Throughput",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM Throughput",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "Compute (SM) Throughput",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "Achieved Occupancy",
    "smsp__inst_executed.sum": "Executed Instructions",
    "l1tex__t_sector_hit_rate.pct": "L1/TEX Hit Rate",
    "launch__registers_per_thread": "Registers Per Thread",
    "launch__shared_mem_per_block_dynamic": "Dynamic Shared Memory Per Block",
    "launch__shared_mem_per_block_static": "Static Shared Memory Per Block",
    "launch__sm_count": "# SMs",
}


def details(version: str = "2023", *, rules: bool = True, labels: bool = True) -> list[list[str]]:
    head = HEADS[version] + ["Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    advice = ["Rule Name", "Rule Type", "Rule Description"] if rules else []
    rows = [head + advice]
    for kernel in range(3):
        begin = fixed(HEADS[version], kernel)
        for name, unit, values in METRICS:
            shown = LABELS.get(name, name) if labels else name
            rows.append([*begin, "A Section", shown, unit, values[kernel], *[""] * len(advice)])
        # The same label in another section, in another unit.
        rows.append(
            [*begin, "Memory", "Memory Throughput", "Gbyte/second", "512.25", *[""] * len(advice)]
        )
        rows.append([*begin, "Again", "Duration", "us", "9,999.5", *[""] * len(advice)])
        if rules:
            rows.append(
                [
                    *begin,
                    "SpeedOfLight",
                    "",
                    "",
                    "",
                    "Bottleneck",
                    "WRN",
                    'This,\n"kernel" is\nslow.',
                ]
            )
    return rows  # fmt: skip


def in_german(rows: list[list[str]]) -> list[list[str]]:
    """The same as a machine prints it that writes 1.234,5; names and sizes stay."""
    fixed_columns = rows[0].index("CC") + 1
    swap = str.maketrans(".,", ",.")
    return rows[:2] + [
        row[:fixed_columns] + [v.translate(swap) if v[:1].isdigit() else v for v in row[fixed_columns:]]
        for row in rows[2:]
    ]  # fmt: skip


def without(rows: list[list[str]], column: str) -> list[list[str]]:
    place = rows[0].index(column)
    return [row[:place] + row[place + 1 :] for row in rows]


def with_instances(rows: list[list[str]]) -> list[list[str]]:
    """`--print-metric-instances`: what each unit of the device counted stands behind the value."""
    first = rows[0].index("CC") + 1
    return rows[:2] + [
        row[:first] + [f"{v} (0: 1.5; 1: 2.5)" if v[:1].isdigit() else v for v in row[first:]]
        for row in rows[2:]
    ]


def with_names(form: str) -> list[list[str]]:
    """`--print-metric-name label-name`."""
    rows = details()
    place = rows[0].index("Metric Name")
    names = {label: name for name, label in LABELS.items() if label != "Memory Throughput"}
    for row in rows[1:]:
        if row[place] in names:
            row[place] = form.format(row[place], names[row[place]])
    return rows


FORMS: dict[str, bytes] = {
    "raw": page(raw()).encode(),
    "raw of 2019": page(
        raw(
            "2019",
            [
                *METRICS,
                *[(f"launch__block_dim_{a}", "", [n] * 3) for a, n in zip("xyz", ("256", "1", "1"), strict=False)],
                *[
                    (f"launch__grid_dim_{a}", "", [grid.strip("()").split(", ")[i] for grid in GRIDS])
                    for i, a in enumerate("xyz")
                ],
            ],
        )
    ).encode(),
    "raw with NVTX": page(raw("NVTX")).encode(),
    "details": page(details()).encode(),
    "details without advice": page(details(rules=False)).encode(),
    "details by metric": page(details(labels=False)).encode(),
    "after what ncu prints": ("==PROF== Connected to process 2497 (python3)\nstep 0, loss 3.5\n==PROF== Profiling \"gemm\" - 0: 0%....100% - 10 passes\n" + page(raw()) + "==PROF== Disconnected from process 2497\n").encode(),
    "after what the program prints": ("{\"loss\": 1}\n[\n" * 30 + page(raw())).encode(),
    "German": page(in_german(raw())).encode(),
    "Swiss": page(raw()).replace("1,031,936", "1’031’936").replace("1,234,567", "1'234'567").replace("1,012.5", "1’012.5").encode(),
    "spaces between thousands": page(in_german(raw())).replace("1.031.936", "1\u202f031\u202f936").replace("1.012,5", "1\u00a0012,5").encode(),
    "units in the header": page([[f"{n} [{u}]" if "__" in n and u else n for n, u in zip(*raw()[:2], strict=False)], *raw()[2:]]).encode(),
    "no quotes": "\n".join(";".join(row) for row in raw()).replace('"quoted"', "quoted").encode(),
    "Windows": page(raw()).replace("\n", "\r\n").encode(),
    "byte order mark": b"\xef\xbb\xbf" + page(raw()).encode(),
    "PowerShell": page(raw()).encode("utf-16"),
    "PowerShell, after what the program prints": ("step 0\n" + page(raw())).encode("utf-16"),
    "UTF-16, the large end first": b"\xfe\xff" + page(raw()).encode("utf-16-be"),
    "UTF-16 without a mark": page(raw()).encode("utf-16-le"),
    "UTF-16 without a mark, the large end first": page(raw()).encode("utf-16-be"),
    "binary units": page(raw()).replace('"Mbyte"', '"MiB"').replace("1.975040", "1.88354492187500").replace("3.000000", "2.86102294921875").replace('"Kbyte/block"', '"KiB/block"').replace("0.192000", "0.1875").replace("1.024", "1").encode(),
    "gzip": gzip.compress(page(raw()).encode()),
    "base units": page([raw()[0], *raw()[1:]]).replace('"us"', '"nsecond"').replace("4.288000", "4,288").replace("2.752000", "2,752").replace("1,012.500000", "1,012,500").replace('"Mbyte"', '"byte"').replace("1.975040", "1,975,040").replace("0.000512", "512").replace("3.000000", "3,000,000").encode(),
    "instances": page(with_instances(raw())).encode(),
    "floats": page(raw()).replace('"40"', '"40.000000"').replace('"255"', '"2.550000e+02"').replace('"132"', '"132.000000"').encode(),
    "labels and names": page(with_names("{} {}")).encode(),
    "labels with names": page(with_names("{} ({})")).encode(),
    "no process": page(without(raw(), "Process ID")).encode(),
    "an index before": page([["", *raw()[0]], *[[str(i), *row] for i, row in enumerate(raw()[1:])]]).encode(),
    "columns in another order": page([row[4:] + row[:4] for row in raw()]).encode(),
    "spaces behind commas": page(raw()).replace('","', '", "').encode(),
    "German, semicolons": page(in_german(raw()), ";").encode(),
    "two passes": (page(raw(metrics=METRICS[:3])) + page(raw(metrics=METRICS[3:]))).encode(),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_of_a_page_says_the_same(form: bytes, tmp_path: Path) -> None:
    file = tmp_path / "ncu.csv"
    file.write_bytes(form)
    profile = profile_of(file)
    assert profile["sources"][0]["kind"] == "ncu"
    assert [k["duration_ns"] for k in profile["kernels"]] == [4288, 2752, 1012500]
    assert [k["grid"] for k in profile["kernels"]] == [[256, 1, 1], [8, 4, 1], [2, 12, 4]]
    assert all(k["block"] == [256, 1, 1] for k in profile["kernels"])
    assert [k["registers"] for k in profile["kernels"]] == [40, 18, 255]
    assert [k["shared_memory"] for k in profile["kernels"]] == [192, 0, 1088]
    first, second, third = (k["metrics"] for k in profile["kernels"])
    assert (first["time_ns"], first["dram_read_bytes"]) == (4288, pytest.approx(1975040))
    assert first["sm_throughput_pct"] == pytest.approx(23.552940)
    assert first["instructions"] == 1031936
    assert first["achieved_occupancy_pct"] == pytest.approx(22.349407)
    assert first["dynamic_shared_bytes"] == 192
    assert second["l1_hit_pct"] == 0
    assert third["memory_throughput_pct"] == 82
    assert "l1_hit_pct" not in third
    assert "l1_hit_pct" in profile["kernels"][2]["metrics_absent"]
    assert profile["devices"][0]["name"] == "NVIDIA H200"
    assert profile["devices"][0]["sm_count"] == 132
    # Nothing is said of when things ran.
    assert not {"wall_ns", "busy_ns", "idle_ns"} & profile["summary"].keys()
    kinds = [finding["id"] for finding in profile["findings"]]
    assert "speed-of-light" in kinds
    assert not {"wall-time", "device-busy"} & set(kinds)
    page_text = driver("report", "--width=120", "--", file).stdout.decode()
    assert "NVIDIA H200" in page_text and "no timeline" in page_text


@pytest.mark.parametrize("make", [raw, details])
def test_processes_and_hosts_have_kernels_of_their_own(
    make: Callable[[], list[list[str]]], tmp_path: Path
) -> None:
    """Each counts from zero; where no column tells them apart, the order does."""
    rows = make()
    first = 1 if "Metric Value" in rows[0] else 2
    host, process = rows[0].index("Host Name"), rows[0].index("Process ID")
    for column in (host, process, None):
        more = [list(row) for row in rows[first:]]
        whole = [*rows, *more]
        if column is None:
            whole = without(whole, "Process ID")
        else:
            for row in more:
                row[column] = "9"
        file = tmp_path / "ncu.csv"
        file.write_text(page(whole))
        times = [k["duration_ns"] for k in profile_of(file)["kernels"]]
        assert times == 2 * [4288, 2752, 1012500]


#: What is done to a raw page of three kernels; what is whole stays, and what is lost is counted.
DAMAGES: dict[str, Callable[[str], str]] = {
    "a field less": lambda t: t.replace('"132","PolicySpread"', '"132"', 1),
    "a field more": lambda t: t.replace('"132","PolicySpread"', '"132","x","PolicySpread"', 1),
    "a quote less": lambda t: t.replace('"fmha_', "fmha_").replace('(Params)"', '(Params"'),
    "a quote in a field": lambda t: t.replace('"40"', '"4"0"', 1),
    "a quote that does not end": lambda t: t.replace('"1","2497"', '"1,"2497', 1),
    "an id of words": lambda t: t.replace('"1","2497"', '"one","2497"', 1),
    "an id below zero": lambda t: t.replace('"1","2497"', '"-1","2497"', 1),
    "an id beyond numbers": lambda t: t.replace('"1","2497"', '"99999999999999999999999","2497"', 1),
    "no id": lambda t: t.replace('"1","2497"', '"","2497"', 1),
    "no name": lambda t: t.replace('"triton_poi_fused_relu_0"', '""', 1),
    "cut in a row": lambda t: t[: t.rindex('"PolicySpread"')],
    "cut in a quote": lambda t: t[: t.rindex("PolicySpread") + 4],
    "cut between rows": lambda t: t[: t.rindex('"2","2497"')],
    "a row twice": lambda t: t + t.splitlines()[-1] + "\n",
    "words between rows": lambda t: t.replace('"1","2497"', 'loss 3.5\n"1","2497"', 1),
    "empty lines": lambda t: t.replace("\n", "\n\n"),
    "zeros at the end": lambda t: t + "\0" * 64,
    "bytes that are no text": lambda t: t.replace("triton_poi", "trit\udcffn_poi"),
    "escapes in a name": lambda t: t.replace("triton_poi", "\x1b[31mtriton_poi"),
    "NUL in a name": lambda t: t.replace("triton_poi", "tri\0ton_poi"),
    "a long name": lambda t: t.replace("triton_poi", "x" * 100_000),
    "a name beyond bounds": lambda t: t.replace("triton_poi", "x" * 400_000),
    "a time of words": lambda t: t.replace('"2.752000"', '"soon"'),
    "no time": lambda t: t.replace('"2.752000"', '""'),
    "a negative time": lambda t: t.replace('"2.752000"', '"-2.752000"'),
    "a time of lifetimes": lambda t: t.replace('"2.752000"', '"1e17"'),
    "NaN": lambda t: t.replace('"2.752000"', '"nan"'),
    "infinity": lambda t: t.replace('"11.95"', '"inf"'),
    "a number beyond doubles": lambda t: t.replace('"50,688"', '"1e999"'),
    "a number of many digits": lambda t: t.replace('"50,688"', '"' + "9" * 4000 + '"'),
    "marks alone": lambda t: t.replace('"50,688"', '",.,.,"'),
    "a grid of words": lambda t: t.replace("(8, 4, 1)", "(many)"),
    "a grid of four": lambda t: t.replace("(8, 4, 1)", "(8, 4, 1, 1)"),
    "a grid below zero": lambda t: t.replace("(8, 4, 1)", "(-8, 4, 1)"),
    "a grid beyond numbers": lambda t: t.replace("(8, 4, 1)", "(99999999999999999999, 4, 1)"),
    "a device beyond numbers": lambda t: t.replace('"0","9.0"', '"9223372036854775807","9.0"'),
    "a device below zero": lambda t: t.replace('"0","9.0"', '"-9223372036854775808","9.0"'),
    "a capability of words": lambda t: t.replace('"9.0"', '"hopper"'),
    "registers beyond numbers": lambda t: t.replace('"255"', '"1e300"'),
    "an unknown unit": lambda t: t.replace('"Mbyte"', '"Mfurlong"'),
    "a unit twice": lambda t: t.replace('"us"', '"us/us/us"'),
    "two languages": lambda t: t.replace('"11.95"', '"11,95"'),
    "a metric twice": lambda t: t.replace('"launch__sm_count"', '"gpu__time_duration.sum"', 1),
    "the header twice": lambda t: t.splitlines()[0] + "\n" + t,
    "another table behind it": lambda t: t + t,
    "a table of nothing behind it": lambda t: t + '"ID","Kernel Name"\n',
    "a header of many columns": lambda t: t + '"ID","Kernel Name"' + ',"sm__x"' * 70_000 + "\n",
    "many quotes": lambda t: t + '"a\n' * 30_000,
    "doubled quotes without an end": lambda t: t + '"' * 300_001 + "\n" + '"' * 99_999,
}  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "bytes_read"),
    [
        ("KiB", 2048), ("Kibyte", 2048), ("GiB", 2 << 30), ("KB", 2000), ("B", 2), ("bytes", 2),
        ("Mfurlong", None), ("us", None), ("Kib", None),
    ],
)  # fmt: skip
def test_sizes_are_told_by_their_units(unit: str, bytes_read: int | None, tmp_path: Path) -> None:
    file = tmp_path / "ncu.csv"
    file.write_text(page(raw()).replace('"Mbyte"', f'"{unit}"').replace("1.975040", "2"))
    profile = profile_of(file)
    assert profile["kernels"][0]["metrics"].get("dram_read_bytes") == bytes_read
    unknown = f'3 values are left out, as what units (the first one is "{unit}") are in nanoseconds or bytes'
    assert any(unknown in note for note in profile["notes"]) == (bytes_read is None)
    # A time is none of bytes either.
    file.write_text(page(raw()).replace('"us"', '"KiB"'))
    assert "did not count how long kernels took" in error_of(file)


def test_there_are_forty_kinds_of_damage() -> None:
    assert len(DAMAGES) >= 40


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_costs_what_it_touches(damage: Callable[[str], str], tmp_path: Path) -> None:
    whole = page(raw())
    damaged = damage(whole)
    assert damaged != whole
    file = tmp_path / "ncu.csv"
    file.write_bytes(damaged.encode(errors="surrogateescape"))
    profile = profile_of(file)
    times = [k["duration_ns"] for k in profile["kernels"]]
    assert times
    assert sum(times) == profile["summary"]["kernel_time_ns"]
    assert all(k["start_ns"] == sum(times[:i]) for i, k in enumerate(profile["kernels"]))
    if len(times) < 3 and not damaged.startswith(whole[: len(damaged)]):
        assert any("damaged and left out" in note for note in profile["notes"])
    assert driver("report", "--", file).returncode == 0
    driver("report", f"--html={tmp_path / 'page.html'}", "--", file)


def test_every_cut_is_read_or_refused(tmp_path: Path) -> None:
    for name in ("raw", "details", "gzip", "PowerShell"):
        whole = FORMS[name]
        for length in range(0, len(whole), max(1, len(whole) // 20)):
            (tmp_path / "ncu.csv").write_bytes(whole[:length])
            driver("report", "--json", "--", tmp_path / "ncu.csv")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("==PROF== Connected to process 1\n==ERROR== The user does not have permission\n", "no table"),
        ('"Process ID","Kernel Name","Invocations","Metric Name","Minimum"\n', "--print-summary"),
        (page(raw()[:2]), "no kernel in the table"),
        (page(raw(metrics=METRICS[1:])), "gpu__time_duration.sum"),
        ('"Process ID","Process Name","Host Name","Kernel Name","Invocations","Section Name","Metric Name"\n', "--print-summary"),
        ('"Session","Value"\n"Process Name","python3"\n', "a table of values (CSV) of a kind"),
        ("Attribute,Value\nDevice,NVIDIA H200\n", "--csv --page raw"),
        ('"#","Address","Source","# Samples"\n"0","0x1","MOV R1, R2","0"\n', "the source page"),
        (page(without(raw(), "Kernel Name")), 'no column "Kernel Name"'),
        (page(without(raw(), "ID")), 'no column "ID"'),
        (page(without(details(), "Metric Unit")), 'no column "Metric Unit"'),
        (page(without(details(), "Metric Value")), 'no column "Metric Value"'),
        (page(without(details(), "Metric Name")), 'no column "Metric Name"'),
        (page(without(details(), "Kernel Name")), 'no column "Kernel Name"'),
        (page([raw()[0], *raw()[2:]]), 'the column "gpu__time_duration.sum" has no unit'),
    ],
    ids=[
        *["no table", "summary", "no kernel", "no times", "summary of details"],
        *["session page", "attributes", "source page", "no name", "no id"],
        *["no unit", "no value", "no metric", "no name in details", "no row of units"],
    ],
)  # fmt: skip
def test_what_is_refused_says_what_to_do(content: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "ncu.csv"
    file.write_text(content)
    error = error_of(file)
    assert "ncu.csv: " in error and part in error


def test_a_report_of_nsight_compute_needs_ncu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "r.ncu-rep"
    report.write_bytes(b"NVR\0")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert f"ncu --csv --page raw --import {report}" in error_of(report)
    # One that prints what ncu prints.
    (tmp_path / "made.csv").write_bytes(FORMS["raw"])
    fake = tmp_path / "bin" / "ncu"
    asked = f"--csv --page raw --print-units base --import {report}"
    body = f'[ "$*" = "{asked}" ] || exit 3\nexec /bin/cat {tmp_path}/made.csv'
    stand_in(fake, body, monkeypatch)
    profile = profile_of(report)
    assert profile["summary"]["kernels"] == 3
    assert profile["sources"][0]["file"] == str(report)
    stand_in(fake, "exit 7", monkeypatch)
    assert "failed with status 7" in error_of(report)
    # Of a folder too, by each name that such a report has.
    (tmp_path / "older").mkdir()
    report.rename(tmp_path / "older" / "r.nsight-cuprof-report")
    assert "failed with status 7" in error_of(tmp_path / "older")


# ----------------------------------------------------------------------------------------------------------------------
# Two pages
# ----------------------------------------------------------------------------------------------------------------------


def launched(counts: list[int], slower: float = 1, kernel: int = 1) -> str:
    """A page with so many launches of each kernel; those of `kernel` take `slower` times as long."""
    rows = raw()
    time = rows[0].index("gpu__time_duration.sum")
    made = rows[:2]
    for place, count in enumerate(counts):
        for launch in range(count):
            row = list(rows[2 + place])
            nanoseconds = 1000 * (100 + 10 * place + launch % 3 / 10)
            row[0] = str(len(made))
            row[time] = f"{nanoseconds * (slower if place == kernel else 1) / 1000:.6f}"
            made.append(row)
    return page(made)


def compared(tmp_path: Path, a: str, b: str, *options: str) -> tuple[int, Any]:
    for name, content in (("a.csv", a), ("b.csv", b)):
        (tmp_path / name).write_text(content)
    to = f"--to={tmp_path / 'b.csv'}"
    done = said("diff", "--format=json", *options, to, "--", tmp_path / "a.csv")
    return done.returncode, json.loads(done.stdout)


def test_pages_are_compared_by_the_time_of_a_launch(tmp_path: Path) -> None:
    """How many launches were counted is a matter of ncu's options, and no change of the program."""
    _, same = compared(tmp_path, launched([10, 8, 6]), launched([20, 16, 12]))
    assert {item["verdict"] for item in same["items"]} == {"same"}
    assert same["a"]["repeats_are"] == "launches" and same["a"]["repeats"] == 24
    assert not {"a_ns", "b_ns"} & same["step"].keys()
    assert "change_pct" not in same["kernel_time"]
    _, changed = compared(tmp_path, launched([10, 8, 6]), launched([20, 16, 12], 1.25))
    by_name = {item["name"]: item for item in changed["items"]}
    slow = by_name.pop(KERNELS[1])
    assert slow["verdict"] == "slower" and slow is changed["items"][0]
    assert slow["a_ns"] == pytest.approx(110_100, abs=100)
    assert slow["b_ns"] == pytest.approx(1.25 * slow["a_ns"], rel=1e-3)
    assert (slow["a_kernels"], slow["b_kernels"]) == (8, 16)
    assert slow["detail"] == "grid 8×4×1, block 256×1×1"
    assert {item["verdict"] for item in by_name.values()} == {"same"}


def test_a_kernel_of_few_launches_is_not_judged(tmp_path: Path) -> None:
    _, result = compared(tmp_path, launched([9, 4, 9]), launched([9, 9, 9], 2))
    assert {i["name"]: i["verdict"] for i in result["items"]}[KERNELS[1]] == "unknown"
    assert any("1 kernel has fewer than 5 launches" in note for note in result["notes"])
    to = f"--to={tmp_path / 'b.csv'}"
    assert "time of one launch" in said("diff", "--width=120", to, "--", tmp_path / "a.csv").stdout


def test_a_check_of_pages_counts_all_launches_of_a_kernel(tmp_path: Path) -> None:
    """A tenth more of a kernel that takes a third of the time: above 3 %, and below 4 %."""
    a, b = launched([10, 10, 10]), launched([10, 10, 10], 1.1)
    for limit, failed in ((3, [KERNELS[1]]), (4, [])):
        _, result = compared(tmp_path, a, b, f"--fail-above={limit}")
        assert result["failed"] == failed


# ----------------------------------------------------------------------------------------------------------------------
# Beside a timeline
# ----------------------------------------------------------------------------------------------------------------------

GRAPH = {
    "opprof_graph_version": 1,
    "graph": "made",
    "stage": "export",
    "nodes": [],
}


def timeline(steps: int = 2, *, leave_out: int | None = None) -> dict[str, Any]:
    """A trace whose steps run the kernels of the page, with names as torch.profiler prints them."""
    names = ["void gemm<float, 3>(float const*, Quoted, float)", KERNELS[1], KERNELS[2]]
    events: list[dict[str, Any]] = []
    for step in range(steps):
        at = 1000.0 * step
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "pid": 1,
                "tid": 1,
                "ts": at,
                "dur": 999,
            }
        )
        for place, name in enumerate(names):
            if place == leave_out:
                continue
            number = 10 * step + place + 1
            start = at + 100 * place + 1
            grid = json.loads(GRIDS[place].replace("(", "[").replace(")", "]"))
            events.append(
                {
                    "ph": "X",
                    "cat": "cuda_runtime",
                    "name": "cudaLaunchKernel",
                    "pid": 1,
                    "tid": 1,
                    "ts": start,
                    "dur": 2,
                    "args": {"correlation": number},
                }
            )
            events.append(
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": name,
                    "pid": 0,
                    "tid": 7,
                    "ts": start + 5,
                    "dur": 4,
                    "args": {
                        "device": 0,
                        "stream": 7,
                        "correlation": number,
                        "grid": grid,
                        "block": [256, 1, 1],
                    },
                }
            )
    return {"traceEvents": events}  # fmt: skip


def joined(tmp_path: Path, trace: dict[str, Any], counters: str | bytes) -> Any:
    """The profile of a trace with counters beside it, which `opprof profile` makes."""
    (tmp_path / "t.json").write_text(json.dumps(trace))
    file = tmp_path / "ncu.csv"
    file.write_bytes(counters.encode() if isinstance(counters, str) else counters)
    (tmp_path / "g.mlir").write_text('fx.graph @made stage "export" () {\n  fx.output() : ()\n}\n')
    run = tmp_path / "run"
    status = main(
        [
            "profile",
            "--graph",
            str(tmp_path / "g.mlir"),
            "--trace",
            str(tmp_path / "t.json"),
            "--counters",
            str(file),
            "-o",
            str(run),
        ]
    )
    assert status in (0, None)
    assert (run / "counters.csv.gz").exists()
    return json.loads((run / "profile.opprof.json").read_text())


def test_counters_are_joined_to_a_timeline_in_order(tmp_path: Path) -> None:
    profile = joined(tmp_path, timeline(), page(raw()))
    for kernel in profile["kernels"]:
        assert "(medium)" in kernel["metrics_from"]
        assert kernel["metrics"]["time_ns"] in (4288, 2752, 1012500)
    assert [k["metrics"]["instructions"] for k in profile["kernels"]] == [
        1031936,
        50688,
        1234567,
    ] * 2
    assert any(
        "6 of 6 kernels: 6 by name, grid, block and order (medium), 0 by" in n
        for n in profile["notes"]
    )


def test_a_kernel_that_was_not_counted_has_none(tmp_path: Path) -> None:
    rows = raw()
    profile = joined(tmp_path, timeline(1), page([*rows[:3], rows[4]]))
    assert ["metrics" in kernel for kernel in profile["kernels"]] == [True, False, True]


def test_another_grid_is_another_kernel(tmp_path: Path) -> None:
    profile = joined(tmp_path, timeline(1), page(raw()).replace("(8, 4, 1)", "(9, 4, 1)"))
    assert ["metrics" in kernel for kernel in profile["kernels"]] == [True, False, True]


def test_counters_of_another_order_are_low(tmp_path: Path) -> None:
    rows = raw()
    profile = joined(tmp_path, timeline(1), page([*rows[:2], rows[4], rows[3], rows[2]]))
    assert sum("(low)" in kernel["metrics_from"] for kernel in profile["kernels"]) >= 2


def test_a_file_of_counters_needs_a_timeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "model.py", "--counters", "ncu.csv", "-o", str(tmp_path / "run")]) == 1
    assert "goes with --trace and --graph or --code" in capsys.readouterr().err


def test_a_recorded_page_is_read_whole() -> None:
    folder = os.environ.get("OPPROF_RECORDED")
    if not folder:
        pytest.skip("OPPROF_RECORDED names no folder of recorded files")
    profile = profile_of(Path(folder) / "gpt2" / "ncu-kernel-replay.csv.gz")
    assert profile["summary"]["kernels"] == 280
    assert all("sm_throughput_pct" in kernel["metrics"] for kernel in profile["kernels"])

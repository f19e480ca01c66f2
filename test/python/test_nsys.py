"""Exports of Nsight Systems: of every version that is known, without each table and column, odd ones, and several processes. No PyTorch
is needed. The rows are made up; test_recordings.py reads recorded exports."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from driver_runs import driver, error_of, profile_of, said, stand_in
from nsys_exports import PROCESS, READ, VERSIONS, insert, place, write_export


def changed(path: Path, script: str) -> Path:
    """A newest export to which a script was applied."""
    write_export(path)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
    return path


@pytest.mark.parametrize("version", VERSIONS)
def test_an_export_of_nsight_systems_is_read(version: str, tmp_path: Path) -> None:
    profile = profile_of(write_export(tmp_path / "report.sqlite", version))
    assert profile["sources"][0]["kind"] == "nsys"
    assert profile["summary"]["kernels"] == 2
    assert profile["summary"]["kernel_time_ns"] == 1500
    relu, gemm = profile["kernels"]
    assert (relu["name"], relu["start_ns"], relu["grid"], relu["block"]) == (
        "void relu<float>(float*)", 1000, [8, 4, 1], [256, 1, 1],
    )  # fmt: skip
    assert relu["launched_at_ns"] == 500
    assert relu["range"] == "epoch"
    assert gemm["host_op"] == "aten::mm"
    copy, fill = profile["copies"]
    assert (copy["name"], copy["bytes"]) == ("Memcpy HtoD (Pageable -> Device)", 4096)
    assert fill["bytes"] == 64
    assert [device["name"] for device in profile["devices"]] == ["NVIDIA H200"]
    overheads = [(o["kind"], o["duration_ns"]) for o in profile["overheads"]]
    own = "CUPTI_ACTIVITY_KIND_OVERHEAD" in VERSIONS[version]
    assert overheads == [("CUPTI Buffer Request", 200), ("Lazy Function Loading", 100)][: 1 + own]
    assert profile["synchronizations"][0]["name"] == "cudaDeviceSynchronize"
    mm = next(op for op in profile["operators"] if op["name"] == "aten::mm")
    assert mm["input_dims"] == "[[2, 3], [3, 4]]"


#: What is done to a whole export; the file is read or refused, and never anything else.
ATTACKS: dict[str, str] = {
    "kernels gone": "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
    "names gone": "DROP TABLE StringIds",
    "calls gone": "DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME",
    "ranges gone": "DROP TABLE NVTX_EVENTS",
    "devices gone": "DROP TABLE TARGET_INFO_GPU",
    "copies gone": "DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY",
    "kinds gone": "DROP TABLE ENUM_CUDA_MEM_KIND",
    "no kernels": "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL",
    "start gone": "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN start",
    "end gone": "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN end",
    "name gone": "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName",
    "correlation gone": "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN correlationId",
    "device gone": "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN deviceId",
    "grid gone": "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN gridY",
    "time is null": "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO k; CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM k; "
    "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = NULL WHERE rowid = 1",
    "time is text": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE rowid = 1",
    "time is a real number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 1.5 WHERE rowid = 1",
    "time is bytes": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = x'00ff' WHERE rowid = 1",
    "time is negative": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -5 WHERE rowid = 1",
    "ends before it starts": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 1 WHERE rowid = 1",
    "ends at the largest number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9223372036854775807 WHERE rowid = 1",
    "lifetimes": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 2305843009213693951",
    "device is the largest number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 9223372036854775807",
    "device is the least number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = -9223372036854775808",
    "stream is the largest number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 9223372036854775807",
    "correlation is the largest number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = 9223372036854775807",
    "correlation is negative": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = -1",
    "process is the least number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = -9223372036854775808",
    "name is no number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 'gemm'",
    "name is nowhere": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 99999",
    "name is the largest number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 9223372036854775807",
    "name is long": "UPDATE StringIds SET value = printf('%.*c', 3000000, 'x')",
    "name is no text": "UPDATE StringIds SET value = x'ff00fe'",
    "name has escapes": "UPDATE StringIds SET value = char(27) || '[31m' || char(10)",
    "grid is negative": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = -1",
    "grid is the largest number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 9223372036854775807, blockX = 9223372036854775807",
    "copy of a kind that is none": "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 9223372036854775807, srcKind = -1",
    "bytes are negative": "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = -4",
    "thread is the least number": "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = -9223372036854775808",
    "range without a name": "UPDATE NVTX_EVENTS SET text = NULL, textId = NULL",
    "range with odd sizes": "UPDATE NVTX_EVENTS SET text = 'aten::mm, seq = x, sizes = [[[[' WHERE text IS NOT NULL",
    "a view in place of a table": "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO k; CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS "
    "WITH RECURSIVE c(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM c) SELECT start, start + 1 AS end FROM c",
    "a computed column": "DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET; CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, end, bytes AS "
    "(length(hex(zeroblob(10000000)))));",
    "names without a key": "ALTER TABLE StringIds RENAME TO s; CREATE TABLE StringIds (id, value); INSERT INTO StringIds SELECT * FROM s",
    "two processes": "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName) "
    "VALUES (7000, 7100, 0, 1, 7, 5, 1677721600, 1)",
    "graphs as a whole": "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, contextId, streamId, correlationId, graphId, graphExecId) "
    "VALUES (8000, 8100, 0, 1, 7, 3, 2, 9)",
    "events far apart": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 2000000000000000000, end = 2000000000000000010 WHERE rowid = 1",
}  # fmt: skip


def test_pages_of_unified_memory_move_without_a_call(tmp_path: Path) -> None:
    """They are no copies from before the recording, and are told from those that the program calls for."""
    file = changed(
        tmp_path / "report.sqlite",
        "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 11, correlationId = 0",
    )
    profile = profile_of(file)
    copy = profile["copies"][0]
    assert copy["name"] == "Memcpy HtoD (Unified)"
    assert copy["phase"] == "steady"
    assert copy["explanation"].startswith("pages of unified memory move when they are touched")
    (found,) = (f for f in profile["findings"] if f["id"] == "host-copies")
    assert found["evidence"]["pages_per_step"] == 1
    assert "pages of unified memory that move when they are touched" in found["text"]
    page = said("report", "--width=200", "--", file).stdout
    assert "cudaMemPrefetchAsync" in page


def test_there_are_forty_kinds_of_odd_exports() -> None:
    assert len(ATTACKS) >= 40


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_odd_export_is_read_or_refused(attack: str, tmp_path: Path) -> None:
    file = changed(tmp_path / "report.sqlite", attack)
    done = driver("report", "--json", "--", file)
    if done.returncode == 0:
        profile = json.loads(done.stdout)
        assert (
            sum(k["duration_ns"] for k in profile["kernels"])
            == profile["summary"]["kernel_time_ns"]
        )
        assert driver("report", "--", file).returncode == 0
    else:
        assert b"report.sqlite: " in done.stderr


def test_a_view_in_place_of_a_table_is_not_read_and_says_so(tmp_path: Path) -> None:
    attack = ATTACKS["a view in place of a table"]
    profile = profile_of(changed(tmp_path / "report.sqlite", attack))
    assert not profile["kernels"]
    assert profile["notes"][0].startswith("CUPTI_ACTIVITY_KIND_KERNEL is a view")


def test_a_trigger_of_a_table_s_name_hides_nothing(tmp_path: Path) -> None:
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    # The first row of the schema that bears the name, as the table is made anew behind it.
    attack = (
        f"CREATE TABLE k AS SELECT * FROM {table}; DROP TABLE {table}; "
        f"CREATE TRIGGER {table} AFTER INSERT ON StringIds BEGIN SELECT 1; END; "
        f"CREATE TABLE {table} AS SELECT * FROM k"
    )
    profile = profile_of(changed(tmp_path / "report.sqlite", attack))
    assert profile["kernels"] and not any("is a view" in note for note in profile["notes"])


def test_a_cut_or_overwritten_export_is_read_or_refused(tmp_path: Path) -> None:
    whole = write_export(tmp_path / "whole.sqlite").read_bytes()
    for length in range(0, len(whole), len(whole) // 24 - 7):
        (tmp_path / "cut.sqlite").write_bytes(whole[:length])
        driver("report", "--json", "--", tmp_path / "cut.sqlite")
    for at in range(0, len(whole), len(whole) // 24 - 11):
        broken = bytearray(whole)
        broken[at : at + 64] = b"\xff" * len(broken[at : at + 64])
        (tmp_path / "broken.sqlite").write_bytes(broken)
        driver("report", "--json", "--", tmp_path / "broken.sqlite")


def test_a_database_of_something_else_says_so(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "other.sqlite")
    database.execute("CREATE TABLE bookmarks (url)")
    database.commit()
    database.close()
    assert "not an export of Nsight Systems" in error_of(tmp_path / "other.sqlite")


def test_an_export_in_gzip_is_read_as_it_is(tmp_path: Path) -> None:
    plain = write_export(tmp_path / "made.sqlite")
    packed = tmp_path / "made.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    expected = profile_of(plain)
    expected["sources"][0]["file"] = str(packed)
    assert profile_of(packed) == expected


def test_a_report_of_nsight_systems_needs_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "r.nsys-rep"
    report.write_bytes(b"anything")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "nsys" in error_of(report)
    # One that does what nsys does.
    write_export(tmp_path / "made.sqlite")
    copies = f'/bin/cp {tmp_path}/made.sqlite "${{a#--output=}}"'
    # It has nothing of what the reader asks glibc for.
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    mine = '[ -z "$GLIBC_TUNABLES" ] || exit 1'
    body = f'{mine}; for a in "$@"; do case $a in --output=*) {copies};; esac; done'
    stand_in(tmp_path / "bin" / "nsys", body, monkeypatch)
    assert profile_of(report)["summary"]["kernels"] == 2


# ----------------------------------------------------------------------------------------------------------------------
# What may be missing
# ----------------------------------------------------------------------------------------------------------------------

#: What the profile of a whole export says, by what a table or column is for.
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
TIMES = ("start", "end")
HAVE_TIMES = {
    KERNELS: "kernels",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memcpy",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memset",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "calls",
    "NVTX_EVENTS": "ranges",
    "PROFILER_OVERHEAD": "overheads",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "overheads",
}


def facts(profile: Any) -> dict[str, Any]:
    """What of a profile may not change where it has nothing to do with what is missing."""
    copies = {"memcpy": [], "memset": []}
    for copy in profile.get("copies", []):
        copies[copy["kind"]].append((copy["start_ns"], copy["duration_ns"]))
    return {
        "kernels": [(k["start_ns"], k["duration_ns"]) for k in profile["kernels"]],
        **copies,
        "calls": [(s["start_ns"], s["duration_ns"]) for s in profile.get("synchronizations", [])],
        "ranges": sorted(k.get("range", "") for k in profile["kernels"]),
        "overheads": [(o["start_ns"], o["duration_ns"]) for o in profile.get("overheads", [])],
    }


#: What else depends on a table: ranges are those that the launches lie in, which the calls tell.
DEPENDS = {"CUPTI_ACTIVITY_KIND_RUNTIME": {"calls", "ranges"}, KERNELS: {"kernels", "ranges"}}


def notes_of(profile: Any) -> str:
    return "\n".join(profile.get("notes", []))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return facts(profile_of(write_export(tmp_path_factory.mktemp("whole") / "r.sqlite")))


@pytest.mark.parametrize("table", READ)
def test_without_a_table_the_rest_is_read(
    table: str, whole: dict[str, Any], tmp_path: Path
) -> None:
    less = facts(profile_of(changed(tmp_path / "less.sqlite", f"DROP TABLE {table}")))
    lost = DEPENDS.get(table, {HAVE_TIMES.get(table, "")})
    if table in ("StringIds", "ENUM_NSYS_EVENT_TYPE"):
        lost = {"ranges", "calls"}
    for fact in whole.keys() - lost:
        assert less[fact] == whole[fact], fact
    if table == KERNELS:
        assert not less["kernels"]


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table, columns in READ.items() for column in columns]
)
def test_without_a_column_the_rest_is_read(
    table: str, column: str, whole: dict[str, Any], tmp_path: Path
) -> None:
    # A key can't be dropped.
    script = f"ALTER TABLE {table} RENAME COLUMN {column} TO unheard_of"
    profile = profile_of(changed(tmp_path / "less.sqlite", script))
    less = facts(profile)
    if column in TIMES and table in HAVE_TIMES:
        kept = whole.keys() - DEPENDS.get(table, {HAVE_TIMES[table]})
        if table == "NVTX_EVENTS" and column == "end":
            assert "2 ranges have no end, and are left out" in notes_of(profile)
        else:
            assert "times that make no sense" in notes_of(profile)
    elif table in (
        "StringIds",
        "NVTX_EVENTS",
        "ENUM_NSYS_EVENT_TYPE",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
    ):
        kept = {"kernels", "memcpy", "memset", "overheads"}
    elif (table, column) in ((KERNELS, "correlationId"), (KERNELS, "streamId")):
        kept = whole.keys() - {"ranges"}
    else:
        kept = set(whole)
    for fact in kept:
        assert less[fact] == whole[fact], fact


def test_what_is_missing_is_unknown_and_no_number(tmp_path: Path) -> None:
    for column, key in (
        ("gridY", "grid"),
        ("blockZ", "block"),
        ("registersPerThread", "registers"),
        ("staticSharedMemory", "shared_memory"),
        ("localMemoryPerThread", "local_memory"),
        ("streamId", "stream"),
    ):
        script = f"ALTER TABLE {KERNELS} RENAME COLUMN {column} TO unheard_of"
        whole = profile_of(write_export(tmp_path / "whole.sqlite"))["kernels"][0]
        less = profile_of(changed(tmp_path / "less.sqlite", script))["kernels"][0]
        assert key in whole
        assert key not in less


def test_kernels_without_a_process_are_those_of_the_only_one(tmp_path: Path) -> None:
    script = f"ALTER TABLE {KERNELS} RENAME COLUMN globalPid TO unheard_of"
    profile = profile_of(changed(tmp_path / "r.sqlite", script))
    assert [k["launched_at_ns"] for k in profile["kernels"]] == [500, 4000]
    other = f"{script}; UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = {99 << 24} WHERE start = 5100"
    profile = profile_of(changed(tmp_path / "r.sqlite", other))
    assert not any("launched_at_ns" in kernel for kernel in profile["kernels"])


# ----------------------------------------------------------------------------------------------------------------------
# What differs between versions
# ----------------------------------------------------------------------------------------------------------------------


def test_ranges_are_told_by_the_numbers_that_the_export_gives(tmp_path: Path) -> None:
    renumbered = "UPDATE ENUM_NSYS_EVENT_TYPE SET id = id + 100; UPDATE NVTX_EVENTS SET eventType = eventType + 100"
    profile = profile_of(changed(tmp_path / "r.sqlite", renumbered))
    assert profile["kernels"][0]["range"] == "epoch"
    # Those that were imported from text, where no table gives numbers.
    imported = "DROP TABLE ENUM_NSYS_EVENT_TYPE; UPDATE NVTX_EVENTS SET eventType = 70 WHERE eventType = 59"
    profile = profile_of(changed(tmp_path / "r.sqlite", imported))
    assert profile["kernels"][0]["range"] == "epoch"


def test_ranges_that_do_not_end_are_counted(tmp_path: Path) -> None:
    for end in ("NULL", "-1"):
        script = f"UPDATE NVTX_EVENTS SET end = {end} WHERE textId = 4"
        profile = profile_of(changed(tmp_path / "r.sqlite", script))
        assert "1 range has no end, and is left out" in notes_of(profile)
        assert "range" not in profile["kernels"][0]


def test_calls_of_a_function_of_autograd_are_one_range(tmp_path: Path) -> None:
    script = "UPDATE NVTX_EVENTS SET text = 'MyFunction, seq = 46588, op_id = 995009' WHERE text LIKE 'aten%'"
    profile = profile_of(changed(tmp_path / "r.sqlite", script))
    assert profile["kernels"][1]["range"] == "MyFunction"


def test_what_cuda_itself_takes_is_not_the_profilers(tmp_path: Path) -> None:
    """The host is late for the last kernel; an overhead of the profiler excuses what it took of that, CUDA's own does not."""
    for kind, excused in (
        ("CUPTI Instrumentation", 100),
        ("Lazy Function Loading", 0),
        ("Runtime Triggered Module Loading", 0),
        ("Command Buffer Full", 0),
        ("Driver JIT compiler (CUDA)", 0),
    ):
        script = (
            f"DELETE FROM PROFILER_OVERHEAD; UPDATE StringIds SET value = '{kind}' WHERE id = 7"
        )
        profile = profile_of(changed(tmp_path / "r.sqlite", script))
        assert profile["overheads"] == [{"kind": kind, "start_ns": 3300, "duration_ns": 100}]
        busy = next(f for f in profile["findings"] if f["id"] == "device-busy")
        assert busy["evidence"].get("idle_profiler_ns_per_step", 0) == excused
        # Where the table has no name, the type has one.
        unnamed = f"{script}; UPDATE CUPTI_ACTIVITY_KIND_OVERHEAD SET nameId = NULL"
        profile = profile_of(changed(tmp_path / "r.sqlite", unnamed))
        assert [o["kind"] for o in profile["overheads"]] == ["Lazy function loading (CUDA)"]


def test_what_ran_at_a_time_that_nobody_saw_is_counted(tmp_path: Path) -> None:
    script = f"UPDATE {KERNELS} SET start = 0, end = 0 WHERE correlationId = 5"
    profile = profile_of(changed(tmp_path / "r.sqlite", script))
    assert profile["summary"]["kernels"] == 1
    assert "1 kernel, copy or graph has no time, as CUPTI could not see when it ran" in notes_of(
        profile
    )


def test_what_was_called_before_the_recording_began_has_a_time(tmp_path: Path) -> None:
    script = (
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = -300, end = -200 WHERE correlationId = 5"
    )
    profile = profile_of(changed(tmp_path / "r.sqlite", script))
    assert profile["kernels"][0]["launched_at_ns"] == -300
    assert "no sense" not in notes_of(profile)


def test_other_work_of_a_device_is_counted_and_left_out(tmp_path: Path) -> None:
    script = (
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS (start INTEGER NOT NULL, end INTEGER NOT NULL);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS VALUES (10, 20), (30, 40)"
    )
    profile = profile_of(changed(tmp_path / "r.sqlite", script))
    assert "2 decompressions by the copy engine" in notes_of(profile)


# ----------------------------------------------------------------------------------------------------------------------
# CUDA graphs, processes and devices
# ----------------------------------------------------------------------------------------------------------------------


def with_rows(path: Path, *rows: tuple[str, dict[str, Any]]) -> Path:
    write_export(path)
    with closing(sqlite3.connect(path)) as database:
        for table, values in rows:
            insert(database, table, **values)
        database.commit()
    return path


def ran(
    start: int, correlation: int, process: int = PROCESS, device: int = 0, **more: Any
) -> dict[str, Any]:
    where = {**place(start, start + 100, correlation), "deviceId": device}
    return {**where, "globalPid": process << 24, "demangledName": 1, **more}


def replay(start: int, correlation: int) -> tuple[str, dict[str, Any]]:
    values = ran(start, correlation, graphId=3, graphExecId=4)
    del values["demangledName"]
    return "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", values


def test_a_replay_counts_as_a_whole_or_by_its_kernels_and_not_twice(tmp_path: Path) -> None:
    nodes = [(KERNELS, ran(8000 + 200 * n, 11, graphNodeId=20 + n)) for n in range(3)]
    profile = profile_of(with_rows(tmp_path / "nodes.sqlite", *nodes))
    assert [k.get("graph_node") for k in profile["kernels"]] == [None, None, 20, 21, 22]
    profile = profile_of(with_rows(tmp_path / "whole.sqlite", replay(9000, 12)))
    assert profile["kernels"][2]["name"] == "CUDA graph 3"
    assert "1 replays of CUDA graphs were traced as a whole" in notes_of(profile)
    profile = profile_of(
        with_rows(tmp_path / "both.sqlite", *nodes, replay(8000, 11), replay(9000, 12))
    )
    assert len(profile["kernels"]) == 6
    assert "1 replays of CUDA graphs are left out as a whole" in notes_of(profile)


def test_each_process_has_the_devices_that_it_sees(tmp_path: Path) -> None:
    """Two processes that each see one device of the machine, which is 0 for both, and have the same correlation ids."""
    rows: list[tuple[str, dict[str, Any]]] = [
        ("TARGET_INFO_CUDA_DEVICE", {"gpuId": 1, "cudaId": 0, "pid": 88}),
        (KERNELS, ran(1000, 5, process=88)),
        (
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            {"start": 700, "end": 710, "globalTid": 88 << 24 | 3, "correlationId": 5, "nameId": 3},
        ),
    ]
    profile = profile_of(with_rows(tmp_path / "r.sqlite", *rows))
    assert {d["id"]: d["name"] for d in profile["devices"]} == {0: "NVIDIA H200", 1: "NVIDIA H100"}
    assert [(k["device"], k["launched_at_ns"]) for k in profile["kernels"]] == [
        (0, 500),
        (1, 700),
        (0, 4000),
    ]
    assert "2 processes are in the file" in notes_of(profile)
    # Without the table that says so, they are one device, which is said.
    file = with_rows(tmp_path / "old.sqlite", *rows)
    with closing(sqlite3.connect(file)) as database:
        database.execute("DROP TABLE TARGET_INFO_CUDA_DEVICE")
    profile = profile_of(file)
    assert [d["id"] for d in profile["devices"]] == [0]
    assert "2 processes name device 0, and nothing in the file says whether it is one" in notes_of(
        profile
    )

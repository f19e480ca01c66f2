"""Exports of Nsight Systems, made by sqlite3 with the tables and columns that its versions write. Which those are was read in:

2022.2   schema 2.9.1, 2024.5 schema 3.13.2: recorded exports that the tests of Pipit (hpcgroup/pipit) hold
2024.6   schema 3.16.1: the `.schema` of an export
2026.1   schema 3.24.14, 2026.2 schema 3.25.0: recorded exports that the tests of nsys-ai (GindaChen/nsys-ai) hold
2023, 2025, and tables without a row in those: the schema in NVIDIA's User Guide, and what people's scripts for those versions ask for

The rows are made up: two kernels and what belongs to them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

#: Where something ran; since 2024 the green context too.
PLACE = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, \
streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER"
)
GREEN = PLACE.replace("streamId", "greenContextId INTEGER, streamId")
KERNEL = (
    "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL DEFAULT 0, mangledName INTEGER, launchType INTEGER, \
cacheConfig INTEGER, registersPerThread INTEGER NOT NULL DEFAULT 16, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, \
blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER NOT NULL DEFAULT 0, dynamicSharedMemory INTEGER NOT NULL DEFAULT 0, \
localMemoryPerThread INTEGER NOT NULL DEFAULT 0, localMemoryTotal INTEGER NOT NULL DEFAULT 0, gridId INTEGER NOT NULL DEFAULT 1, \
sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER"
)
CLUSTER = (
    ", qmdBulkReleaseDone INTEGER, qmdPreexitDone INTEGER, qmdLastCtaDone INTEGER, graphId INTEGER, clusterX INTEGER, \
clusterY INTEGER, clusterZ INTEGER, clusterSchedulingPolicy INTEGER, maxPotentialClusterSize INTEGER, maxActiveClusters INTEGER, \
sharedMemoryRequestedPercentage INTEGER"
)
TENSORS = ", tensorSizeMinusOneElements TEXT NOT NULL DEFAULT '[]'"
COPY = (
    "bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, \
srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER, \
virtualAddress INTEGER"
)
SET = "value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER"
CALL = "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL DEFAULT 0, globalTid INTEGER, \
correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL DEFAULT 0, callchainId INTEGER"
RANGE = "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER, \
text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, \
doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT"
OVERHEAD = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER NOT NULL"
)
CUDAS_OWN = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL DEFAULT 103, globalTid INTEGER, \
correlationId INTEGER, nameId INTEGER, overheadType INTEGER NOT NULL"
)
ENUM = "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT"
GPU = (
    "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, totalMemory INTEGER, clockRate INTEGER, \
smCount INTEGER, uuid TEXT, chipName TEXT, cuDevice INTEGER, maxShmemPerSm INTEGER, maxRegistersPerSm INTEGER, \
threadsPerWarp INTEGER, maxWarpsPerSm INTEGER, computeMajor INTEGER, computeMinor INTEGER"
)


def schema(
    place: str,
    kernel: str = "",
    copy: str = "",
    wait: str = "",
    ranges: str = "",
    overhead: str = ", returnValue INTEGER",
    metadata: str = "META_DATA_EXPORT",
) -> dict[str, str]:
    """The columns of each table, by what a version has besides those that all have."""
    return {
        metadata: "name TEXT NOT NULL, value TEXT",
        "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
        "TARGET_INFO_GPU": GPU,
        "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
        "CUPTI_ACTIVITY_KIND_KERNEL": f"{place}, {KERNEL}{kernel}",
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"{place}, {COPY}{copy}",
        "CUPTI_ACTIVITY_KIND_MEMSET": f"{place}, {SET}",
        "CUPTI_ACTIVITY_KIND_RUNTIME": CALL,
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{place}{wait}, syncType INTEGER NOT NULL, eventId INTEGER NOT NULL",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{place}, graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL",
        "NVTX_EVENTS": RANGE + ranges,
        "PROFILER_OVERHEAD": OVERHEAD + overhead,
    }


ENUMS = {"ENUM_CUDA_MEM_KIND": ENUM, "ENUM_NSYS_EVENT_TYPE": ENUM}
NEW: dict[str, Any] = {
    "wait": ", deprecatedSyncType INTEGER",
    "copy": ", copyCount INTEGER",
    "ranges": ", binaryData TEXT",
    "overhead": ", overheadType INTEGER NOT NULL DEFAULT 4",
}
SINCE_2026 = {
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER NOT NULL, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT, numMultiprocessors INTEGER",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": CUDAS_OWN,
    "ENUM_CUPTI_OVERHEAD_TYPE": ENUM,
}
VERSIONS = {
    "2022.2": schema(PLACE, metadata="EXPORT_META_DATA"),
    "2023": {**schema(PLACE), **ENUMS},
    "2024.5": {**schema(GREEN), **ENUMS},
    "2024.6": {**schema(GREEN, ranges=", binaryData TEXT"), **ENUMS},
    "2025": {**schema(GREEN, copy=", copyCount INTEGER", ranges=", binaryData TEXT"), **ENUMS},
    "2026.1": {**schema(GREEN, kernel=CLUSTER, **NEW), **ENUMS, **SINCE_2026},
    "2026.2": {**schema(GREEN, kernel=CLUSTER + TENSORS, **NEW), **ENUMS, **SINCE_2026},
}
NEWEST = "2026.2"

#: The columns that the reader asks for, by table.
READ = {
    "StringIds": ["id", "value"],
    "TARGET_INFO_GPU": [
        *("id", "cuDevice", "name", "smCount", "totalMemory", "threadsPerWarp", "maxWarpsPerSm"),
        *("computeMajor", "computeMinor", "maxRegistersPerSm", "maxShmemPerSm"),
    ],
    "TARGET_INFO_CUDA_DEVICE": ["gpuId", "cudaId", "pid"],
    "TARGET_INFO_SESSION_START_TIME": ["utcEpochNs"],
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        *("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId"),
        *("demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
        *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
        "localMemoryPerThread",
    ],
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ["start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphId"],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [
        *("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId"),
        *("bytes", "copyKind", "srcKind", "dstKind"),
    ],
    "CUPTI_ACTIVITY_KIND_MEMSET": [
        *("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId"),
        "bytes",
    ],
    "CUPTI_ACTIVITY_KIND_RUNTIME": ["start", "end", "globalTid", "correlationId", "nameId"],
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ["start", "end", "globalPid"],
    "NVTX_EVENTS": ["start", "end", "eventType", "globalTid", "text", "textId"],
    "PROFILER_OVERHEAD": ["start", "end", "nameId", "overheadType"],
    "CUPTI_ACTIVITY_KIND_OVERHEAD": ["start", "end", "nameId", "overheadType"],
    "ENUM_CUDA_MEM_KIND": ["id", "name", "label"],
    "ENUM_NSYS_EVENT_TYPE": ["id", "name"],
    "ENUM_CUPTI_OVERHEAD_TYPE": ["id", "label"],
}  # fmt: skip

PROCESS = 77
THREAD = (PROCESS << 24) | 78
NAMES = [
    *("gemm_kernel", "void relu<float>(float*)", "cudaLaunchKernel_v7000", "epoch"),
    *("cudaDeviceSynchronize_v3020", "CUPTI Buffer Request", "Lazy Function Loading"),
]
ENUMERATORS = {
    "ENUM_CUDA_MEM_KIND": [
        (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        (2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
    ],
    "ENUM_NSYS_EVENT_TYPE": [
        (34, "NvtxMark", "NvtxMark"),
        (59, "NvtxPushPopRange", "NvtxPushPopRange"),
        (60, "NvtxStartEndRange", "NvtxStartEndRange"),
    ],
    "ENUM_CUPTI_OVERHEAD_TYPE": [
        (4, "OVERHEAD_CUPTI_INSTRUMENTATION", "Instrumentation (Profiler)"),
        (7, "OVERHEAD_LAZY_FUNCTION_LOADING", "Lazy function loading (CUDA)"),
    ],
}


def place(start: int, end: int, correlation: int) -> dict[str, int]:
    return {
        **{"start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7},
        **{"correlationId": correlation, "globalPid": PROCESS << 24},
    }


def insert(run: sqlite3.Connection, table: str, **values: Any) -> None:
    marks = ", ".join("?" * len(values))
    run.execute(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values())
    )


def write_export(path: Path, version: str = NEWEST) -> Path:
    """Two kernels that ran, their launches, a copy, a memset, a wait, overheads and ranges."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as run:
        for table, columns in VERSIONS[version].items():
            run.execute(f"CREATE TABLE {table} ({columns})")
        _fill(run, VERSIONS[version])
        run.commit()
    return path


def _fill(run: sqlite3.Connection, tables: dict[str, str]) -> None:
    for number, name in enumerate(NAMES, 1):
        insert(run, "StringIds", id=number, value=name)
    for table, rows in ENUMERATORS.items():
        if table in tables:
            run.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    # The second device of the machine is the first that the process sees.
    gpu = {
        "vmId": 0,
        "smCount": 132,
        "threadsPerWarp": 32,
        "maxWarpsPerSm": 64,
        "computeMajor": 9,
        "computeMinor": 0,
    }
    insert(
        run, "TARGET_INFO_GPU", id=1, name="NVIDIA H100", cuDevice=3, totalMemory=80 * 10**9, **gpu
    )
    insert(
        run, "TARGET_INFO_GPU", id=0, name="NVIDIA H200", cuDevice=1, totalMemory=150 * 10**9, **gpu
    )
    if "TARGET_INFO_CUDA_DEVICE" in tables:
        insert(run, "TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=PROCESS)
    insert(run, "TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000)
    for start, correlation, name in ((1000, 5, 2), (5000, 6, 1)):
        sizes = {"gridX": 8, "gridY": 4, "gridZ": 1, "blockX": 256, "blockY": 1, "blockZ": 1}
        where = place(start, start + 750, correlation)
        insert(run, "CUPTI_ACTIVITY_KIND_KERNEL", **where, demangledName=name, **sizes)
    kinds = {"copyKind": 1, "srcKind": 0, "dstKind": 2}
    insert(run, "CUPTI_ACTIVITY_KIND_MEMCPY", **place(2000, 2600, 8), bytes=4096, **kinds)
    insert(run, "CUPTI_ACTIVITY_KIND_MEMSET", **place(3000, 3100, 9), bytes=64, value=0)
    insert(
        run, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **place(5100, 5200, 7), syncType=4, eventId=0
    )
    for start, correlation, name in ((500, 5, 3), (4000, 6, 3), (5100, 7, 5)):
        call = {"start": start, "end": start + 100, "globalTid": THREAD}
        insert(run, "CUPTI_ACTIVITY_KIND_RUNTIME", **call, correlationId=correlation, nameId=name)
    insert(run, "PROFILER_OVERHEAD", start=3000, end=3200, globalTid=THREAD, nameId=6)
    if "CUPTI_ACTIVITY_KIND_OVERHEAD" in tables:
        own = {"start": 3300, "end": 3400, "globalTid": THREAD}
        insert(run, "CUPTI_ACTIVITY_KIND_OVERHEAD", **own, nameId=7, overheadType=7)
    for start, end, kind, text, text_id in (
        (400, 6000, 59, None, 4),
        (3900, 4200, 59, "aten::mm, seq = 4, sizes = [[2, 3], [3, 4]]", None),
        (450, None, 34, "mark", None),
    ):
        when = {"start": start, "end": end, "eventType": kind, "globalTid": THREAD}
        insert(run, "NVTX_EVENTS", **when, text=text, textId=text_id)

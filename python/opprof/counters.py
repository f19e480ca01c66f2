"""Hardware counters in a run folder: which launches are counted, and what the profile's kernels and nodes get of them.

Counters are taken of a step of their own; they are joined to the profile by the launch: the line of the wrapper, and the place
among the kernels of that line.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opprof.capture_library import CaptureError
from opprof.errors import OpprofError
from opprof.files import replacing
from opprof.progress import progress
from opprof.run_folder import RunFolder

#: The timeline of the step that was counted, in a run folder.
COUNTERS_CAPTURE = "counters.opcap"

#: Values that add up over the kernels of a node.
AMOUNTS = frozenset(
    {
        "time_ns",
        "dram_read_bytes",
        "dram_write_bytes",
        "active_cycles",
        "instructions",
        "local_memory_wavefronts",
    }
)
#: Values of which the largest counts; all others are rates, averaged by time.
LIMITS = frozenset({"registers", "dynamic_shared_bytes"})


@dataclass
class LaunchMap:
    """The launches of one compiled graph, by their line."""

    graph: str
    code: str
    by_line: dict[int, dict[str, Any]]


def launch_maps(folders: Iterable[Path]) -> list[LaunchMap]:
    """The launch maps of compiled graphs' folders."""
    maps = []
    for folder in folders:
        try:
            launches = json.loads((folder / "launches.json").read_text())
            code = (folder / "output_code.py").read_text()
        except (OSError, ValueError) as error:
            raise OpprofError(f"{folder}: its launch map cannot be read: {error}") from error
        by_line = {launch["line"]: launch for launch in launches["launches"] if launch.get("line")}
        maps.append(LaunchMap(launches.get("graph", folder.name), code, by_line))
    return maps


class Locator:
    """Finds the launch of the map that a captured launch is: Inductor's cache holds the code that the run folder copies."""

    def __init__(self, maps: Sequence[LaunchMap]) -> None:
        self._maps = maps
        self._files: dict[str, LaunchMap | None] = {}

    def map_of(self, file: str) -> LaunchMap | None:
        """The launch map of a file of generated code."""
        if file not in self._files:
            try:
                text = Path(file).read_text()
            except OSError:
                text = None
            self._files[file] = next((m for m in self._maps if m.code == text), None)
        return self._files[file]

    def __call__(self, launch: Mapping[str, Any]) -> tuple[LaunchMap, dict[str, Any]] | None:
        file = launch.get("file")
        if file is None:
            return None
        found = self.map_of(file)
        entry = found.by_line.get(launch["line"]) if found is not None else None
        return (found, entry) if found is not None and entry is not None else None


def origins(launch: Mapping[str, Any]) -> frozenset[str]:
    """The exported nodes that a launch computes."""
    return frozenset(
        origin["name"]
        for node in launch["nodes"]
        for origin in node.get("from", [])
        if origin.get("name")
    )


@dataclass
class Places:
    """For each node of a duplicate partition, the node in its place of the unique one."""

    of: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, partitions: Mapping[str, Any]) -> "Places":
        places = cls()
        for entry in partitions.get("classes", []):
            unique = next((p for p in entry["partitions"] if p["role"] == "unique"), None)
            for partition in entry["partitions"]:
                if unique is not None and partition["role"] == "duplicate":
                    places.of.update(zip(partition["nodes"], unique["nodes"], strict=False))
        return places

    def representative(self, node: str) -> str:
        """The node whose counters stand for this one's."""
        # A class may be nested in another: follow until nothing stands for the node.
        for _ in range(16):
            if node not in self.of:
                break
            node = self.of[node]
        return node


#: Launches that do the same work: what they compute with each node in its unique place, which of the launches of exactly
#: these nodes it is, and its kernel.
Work = tuple[frozenset[str], int, str]
#: A compiled graph and the launch's place in it, or nothing and a node.
Place = tuple[str, int | str]


class Standing:
    """Which launch's counters stand for which: one launch of each work is counted."""

    def __init__(self, maps: Sequence[LaunchMap], places: Places) -> None:
        self.places = places
        self.work: dict[Place, Work] = {}
        self.nodes: dict[Place, frozenset[str]] = {}
        self.counted: dict[Work, Place] = {}
        seen: dict[frozenset[str], int] = {}
        for graph in maps:
            for entry in sorted(graph.by_line.values(), key=lambda e: e["index"]):
                key = (graph.graph, entry["index"])
                nodes = origins(entry)
                self.nodes[key] = nodes
                if not nodes:
                    continue
                number = seen.get(nodes, 0)
                seen[nodes] = number + 1
                work = (frozenset(map(places.representative, nodes)), number, entry["kernel"])
                self.work[key] = work
                before = self.counted.get(work)
                # The unique partition's own launch, where it has one that computes nothing else; fusion across a
                # partition's border can leave it without.
                if before is None or (nodes == work[0] and self.nodes[before] != work[0]):
                    self.counted[work] = key

    def add_node(self, node: str) -> Place:
        """A node that runs by itself is a launch of its own."""
        key = ("", node)
        if key not in self.work:
            self.nodes[key] = frozenset({node})
            representative = self.places.representative(node)
            work = (frozenset({representative}), 0, "")
            self.work[key] = work
            if node == representative or work not in self.counted:
                self.counted[work] = key
        return key

    def counted_for(self, key: Place) -> Place:
        """The launch whose counters stand for this one's; one that is known to compute no node stands for itself."""
        work = self.work.get(key)
        return key if work is None else self.counted[work]


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
    from opprof.capture import Capture

    progress(
        f"taking counters of {'the unique partitions' if mode == 'unique' else 'every kernel'}"
    )
    prof = Capture(folder.path, counters=mode, metrics=metrics, file=COUNTERS_CAPTURE, **options)
    try:
        with prof:
            prof.step(step, outside=outside)
    except CaptureError as error:
        # The rest of the profile needs no counters.
        progress(f"no counters: {error}" + (f"\n  {error.remedy}" if error.remedy else ""))
        return {"mode": mode, "metrics": metrics, "left_out": str(error)}
    report = prof.steps[0].report
    if "total_seconds" in report:
        progress(
            f"{len(prof.steps[0].counters)} of {len(prof.steps[0].launches)} kernels, {report['passes']} "
            f"pass{'es' if report['passes'] != 1 else ''}, {report['total_seconds']:.2f} s"
        )
    for name, reason in report.get("absent", {}).items():
        progress(f"{name} is left out: {reason}")
    if "unique" in report:
        # What stood for what, launch by launch, is in counters.json.
        unique = {k: v for k, v in report["unique"].items() if k != "launches"}
        report = {**report, "unique": unique}
    return {"mode": mode, "metrics": metrics, **report}


def _amounts_and_rates(
    kernels: Sequence[tuple[float, Mapping[str, float]]], steps: int
) -> dict[str, float]:
    """One step's values of a node out of its kernels' (time, values) of all steps."""
    result: dict[str, float] = {}
    for name in sorted({name for _, values in kernels for name in values}):
        having = [(time, values[name]) for time, values in kernels if name in values]
        if len(having) < len(kernels) and name in AMOUNTS:
            # A sum that leaves kernels out would be a wrong one.
            continue
        if name in AMOUNTS:
            result[name] = sum(value for _, value in having) / steps
        elif name in LIMITS:
            result[name] = max(value for _, value in having)
        else:
            weight = sum(time for time, _ in having)
            if weight:
                result[name] = sum(time * value for time, value in having) / weight
    return result


def attach(
    profile: dict[str, Any],
    counters: Mapping[str, Any],
    maps: Sequence[LaunchMap],
    partitions: Mapping[str, Any],
) -> int:
    """Puts counters on a profile's kernels and nodes, in place; returns how many kernels have them."""
    locate = Locator(maps)
    places = Places.read(partitions)
    standing = Standing(maps, places)
    # Of each launch its kernels in order; one that was not counted keeps its place.
    by_launch: dict[Place, list[dict[str, float] | None]] = {}
    for step in counters["steps"][-1:]:
        values = {row["launch"]: row["metrics"] for row in step["counters"]}
        for launch in step["launches"]:
            found = locate(launch)
            if found is None:
                continue
            graph, entry = found
            rows = by_launch.setdefault((graph.graph, entry["index"]), [])
            rows.append(values.get(launch["index"]))
    by_launch = {key: rows for key, rows in by_launch.items() if any(rows)}

    counted = 0
    ordinal: dict[tuple[Any, ...], int] = {}
    inferred: dict[int, Place] = {}
    for kernel in sorted(profile["kernels"], key=lambda k: k["start_ns"]):
        if kernel.get("kind", "kernel") != "kernel" or "launch" not in kernel:
            continue
        key: Place = (kernel["compiled_graph"], kernel["launch"])
        which = ordinal.get((kernel.get("step"), *key), 0)
        ordinal[(kernel.get("step"), *key)] = which + 1
        source = key if key in by_launch else standing.counted_for(key)
        rows = by_launch.get(source, [])
        row = rows[which] if which < len(rows) else None
        if row is None:
            continue
        kernel["metrics"] = row
        if source != key:
            inferred[kernel["id"]] = source
            kernel["metrics_inferred"] = True
        counted += 1

    kernels = {kernel["id"]: kernel for kernel in profile["kernels"]}
    for node in profile["nodes"]:
        mine = [
            kernels[i]
            for i in node["kernels"]
            if i in kernels and kernels[i].get("phase", "steady") == "steady"
        ]
        if not mine or not all("metrics" in kernel for kernel in mine):
            continue
        steps = len({kernel.get("step") for kernel in mine})
        node["metrics"] = _amounts_and_rates(
            [(float(kernel["duration_ns"]), kernel["metrics"]) for kernel in mine], steps
        )
        sources = [inferred[kernel["id"]] for kernel in mine if kernel["id"] in inferred]
        if sources:
            place = places.representative(node["name"])
            node["inferred_from"] = next(
                (
                    n
                    for n in sorted(standing.nodes[sources[0]])
                    if places.representative(n) == place
                ),
                place,
            )
    return counted


def attach_to_folder(folder: RunFolder) -> None:
    """Puts a run folder's counters on its profile."""
    counters = folder.counters
    if not counters.is_file():
        return
    profile = json.loads(folder.profile.read_text())
    kernels = attach(
        profile,
        json.loads(counters.read_text()),
        launch_maps(folder.compiled_graphs()),
        json.loads(folder.partitions.read_text()),
    )
    with replacing(folder.profile) as file:
        json.dump(profile, file)
        file.write("\n")
    progress(f"counters on {kernels} of {len(profile['kernels'])} kernels of the trace")

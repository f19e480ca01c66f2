"""Ranks that a tool put into one file: what is attributed there is what is attributed in the files of each. The recordings are real: those of
the tests, made on a GPU, and programs that train on this machine, which PyTorch numbers alike."""

import gzip
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from driver_runs import error_of, profile_of

from opprof.tools import run_tool

INPUTS = Path(__file__).parents[1] / "Profile" / "Inputs"

Event = dict[str, Any]
Document = dict[str, Any]


def read(file: Path) -> Document:
    """A trace whose times are exact: as a double the clock of a machine that has run for weeks has no nanoseconds."""
    text = file.read_bytes()
    text = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
    document = json.loads(text, parse_float=Decimal)
    assert isinstance(document, dict)
    return document


def plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def write(file: Path, document: Document) -> Path:
    """Times are written as texts, which readers take for numbers."""
    for event in document["traceEvents"]:
        for key in ("ts", "dur"):
            if key in event:
                event[key] = str(event[key])
    file.write_text(json.dumps(document, default=plain))
    return file


def begin(document: Document) -> Decimal:
    return min(Decimal(e["ts"]) for e in document["traceEvents"] if e["ph"] == "X")


def by_process(events: list[Event], rank: int) -> list[Event]:
    """Only the numbers of processes differ: enough where nothing ran on a device."""
    return [
        {**event, "pid": event["pid"] + 100_000 * rank} if isinstance(event["pid"], int) else event
        for event in events
    ]


def by_argument(events: list[Event], rank: int) -> list[Event]:
    """Each says its rank, and processes have one number, as in containers."""
    return [
        {
            **event,
            "pid": 7 if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset") else event["pid"],
            "args": {**event.get("args", {}), "rank": rank},
        }
        for event in events
    ]  # fmt: skip


def by_label(events: list[Event], rank: int) -> list[Event]:
    return [{**event, "pid": f"[TP0{rank}] {event['pid']}"} for event in events]


Mark = Callable[[list[Event], int], list[Event]]


def merge(files: list[Path], mark: Mark, folder: Path) -> tuple[list[Path], Path]:
    """The recordings, moved so that they begin at one time, and the file that a tool would make of them."""
    documents = [read(file) for file in files]
    first = begin(documents[0])
    together = {**documents[0], "traceEvents": []}
    alone = []
    for rank, document in enumerate(documents):
        shift = first - begin(document)
        for event in document["traceEvents"]:
            if "ts" in event:
                event["ts"] = Decimal(event["ts"]) + shift
        together["traceEvents"] += mark(document["traceEvents"], rank)
        alone.append(write(folder / f"rank{rank}.json", document))
    return alone, write(folder / "together.json", together)


#: Steps are those of one rank in a file of several, and devices have other numbers.
OF_KERNELS = ("name", "start_ns", "duration_ns", "launched_at_ns", "module", "part", "range", "host_op", "input_type", "source")  # fmt: skip
OF_JOINS = ("compiled_graph", "launch", "method", "confidence", "explanation", "nodes")


def shown(profile: Any) -> list[tuple[str, ...]]:
    """What is known of each kernel and copy, but for what several ranks have together."""
    rows = []
    for activity in [*profile["kernels"], *profile["copies"]]:
        row = [repr(activity.get(key)) for key in OF_KERNELS]
        if "operator" in activity:
            operator = profile["operators"][activity["operator"]]
            row += [operator["name"], operator.get("input_dims", "")]
        row += [repr(activity.get(key)) for key in OF_JOINS]
        rows.append(tuple(row))
    return rows


def differences(together: Any, alone: list[Any]) -> list[Any]:
    """What is known in one place only: a few, as lists of thousands are no message."""
    counts = Counter(shown(together))
    counts.subtract(row for profile in alone for row in shown(profile))
    return [(count, row) for row, count in counts.items() if count][:4]


# ----------------------------------------------------------------------------------------------------------------------
# Programs that train
# ----------------------------------------------------------------------------------------------------------------------

TRAIN = """
import sys, threading, torch

class Stage(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)
    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))

depth, extra, elsewhere, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "elsewhere", sys.argv[4]
net = torch.nn.Sequential(*(Stage(8 + n) if n % 2 == 0 else torch.nn.Linear(8 + n - 1, 8 + n + 1) for n in range(depth)))

def step():
    x = torch.randn(4, 8)
    for _ in range(extra):
        x = x.requires_grad_().sin()
    with torch.profiler.record_function(f"forward of {depth}"):
        loss = net(x).square().mean()
    # As with a GPU, where a thread of autograd's runs them.
    run = threading.Thread(target=loss.backward) if elsewhere else None
    if run is None:
        loss.backward()
    else:
        run.start()
        run.join()

step()
with torch.profiler.profile(with_stack=True, with_modules=True, record_shapes=True,
                            experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True)) as own:
    for _ in range(2):
        step()
own.export_chrome_trace(file)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Two programs of unlike layers whose functions of autograd have the same numbers, and where their backward passes ran."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("trained")
    found: dict[str, list[Path]] = {}
    for where in ("here", "elsewhere"):
        for depth, extra in ((5, 3), (3, 0)):
            file = folder / f"{where}{depth}.json"
            command = [sys.executable, "-c", TRAIN, str(depth), str(extra), where, str(file)]
            subprocess.run(command, check=True, capture_output=True)
            found.setdefault(where, []).append(file)
    return found


@pytest.mark.parametrize("mark", [by_process, by_argument, by_label])
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_backward_operators_are_of_their_own_ranks_modules(
    where: str, mark: Mark, trained: dict[str, list[Path]], tmp_path: Path
) -> None:
    alone, together = merge(trained[where], mark, tmp_path)
    numbers = [
        {e["args"]["Sequence number"] for e in read(file)["traceEvents"] if e.get("args", {}).get("Fwd thread id", 0) > 0}
        for file in alone
    ]  # fmt: skip
    assert numbers[0] & numbers[1]
    for files in (alone, alone[::-1]):
        separate = [profile_of(file) for file in files]
        backward = [k for p in separate for k in p["kernels"] if k.get("part") == "backward"]
        assert len(backward) > 40
        assert sum("Linear_" in kernel.get("module", "") for kernel in backward) > 20
        assert differences(profile_of(together), separate) == []
        _, together = merge(trained[where][::-1], mark, tmp_path)


# ----------------------------------------------------------------------------------------------------------------------
# Recordings of a GPU
# ----------------------------------------------------------------------------------------------------------------------

RECORDED = ["gpt2", "mlp_activations", "sdpa_attention", "graph_break", "conv_block"]


@pytest.mark.parametrize("mark", [by_argument, by_label])
@pytest.mark.parametrize(
    "names",
    [*((name, name) for name in RECORDED), ("mlp_activations_eager", "gpt2"), ("gpt2", "sdpa_attention", "graph_break")],
    ids="+".join,
)  # fmt: skip
def test_kernels_are_of_their_own_ranks_launches(
    names: tuple[str, ...], mark: Mark, tmp_path: Path
) -> None:
    files = [INPUTS / f"{name}.trace.json.gz" for name in names]
    alone, together = merge(files, mark, tmp_path)
    assert differences(profile_of(together), [profile_of(file) for file in alone]) == []
    # One program on all ranks is the usual case: its launches are joined in each.
    maps = list(INPUTS.glob(f"{names[0]}.launches.json*"))
    if len(set(names)) > 1 or not maps:
        return
    launches = tmp_path / "launches.json"
    text = maps[0].read_bytes()
    launches.write_bytes(gzip.decompress(text) if maps[0].suffix == ".gz" else text)
    attributed = [
        json.loads(
            run_tool("opprof-translate", ["--attribute-profile", f"--launches={launches}", file])
        )
        for file in (*alone, together)
    ]
    assert differences(attributed[-1], attributed[:-1]) == []
    assert any(activity["nodes"] for activity in attributed[-1]["kernels"])


# ----------------------------------------------------------------------------------------------------------------------
# Hostile ones
# ----------------------------------------------------------------------------------------------------------------------


def kernel(rank: int, device: int, **more: Any) -> Event:
    return {
        **{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10 * rank, "dur": 5},
        "args": {"device": device, "stream": 7, "rank": rank, **more},
    }


def test_devices_may_have_the_largest_number(tmp_path: Path) -> None:
    largest = 2**63 - 1
    made = [kernel(rank, largest) for rank in range(3)]
    profile = profile_of(write(tmp_path / "t.json", {"traceEvents": made}))
    assert [k["device"] for k in profile["kernels"]] == [largest, 0, 1]


def test_ranks_in_a_file_are_bounded_and_not_all_named(tmp_path: Path) -> None:
    for make in (
        lambda n: [kernel(rank, 0) for rank in range(n)],
        lambda n: [{**kernel(0, 0), "pid": f"[TP{rank}] 0", "args": {}} for rank in range(n)],
        lambda n: [{**kernel(0, device), "args": {"device": device}} for device in range(n)],
    ):
        profile = profile_of(write(tmp_path / "t.json", {"traceEvents": make(4096)}))
        assert len({k["device"] for k in profile["kernels"]}) == 4096
        assert all(len(note) < 1000 for note in profile["notes"])
        error = error_of(write(tmp_path / "t.json", {"traceEvents": make(4097)}))
        assert "t.json: more than 4096 " in error
        assert "give files of fewer" in error or "record it again" in error
    many = [kernel(rank, 0) for rank in range(100)]
    described = [{"id": 4, "name": "NVIDIA H200", "numSms": 132}]
    document = {"traceEvents": many, "deviceProperties": described}
    profile = profile_of(write(tmp_path / "t.json", document))
    (note,) = [note for note in profile["notes"] if "100 ranks are in this file" in note]
    assert "device 1 is device 0 of rank 1" in note and note.endswith(", and 91 more")

"""`opprof run --steps=A:B`: a window of the steps of a program that nobody marked, and what is said where it has none."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

torch = pytest.importorskip("torch")

import test_observer  # noqa: E402 - it needs PyTorch
import test_run_program  # noqa: E402
from test_observer import opprof, write  # noqa: E402

pytestmark = test_observer.pytestmark

TRAIN = """
import sys, torch
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
sys.exit(4)
"""


def record(
    folder: Path, steps: str, text: str, *arguments: object, status: int = 0, **variables: str
) -> tuple[dict[str, Any], str]:
    """The profile of the steps, and what was said; without a profile where nothing was recorded."""
    program = write(folder, text)
    run = folder / "run"
    done = opprof("run", "-o", run, f"--steps={steps}", program, *arguments, **variables)
    assert done.returncode == status, done.stderr
    file = run / "profile.opprof.json"
    return json.loads(file.read_text()) if file.exists() else {}, done.stderr


def said(profile: dict[str, Any]) -> str:
    (note,) = (note for note in profile["notes"] if note.startswith("--steps="))
    return str(note)


def names_by_step(profile: dict[str, Any]) -> list[list[str]]:
    steps: list[list[str]] = [[] for _ in profile["steps"]]
    for kernel in profile["kernels"]:
        if "step" in kernel:
            steps[kernel["step"]].append(kernel["name"])
    return steps


def test_the_steps_that_are_asked_for_are_recorded_and_nothing_else(tmp_path: Path) -> None:
    whole, _ = record(tmp_path, "0:12", TRAIN, 12, status=4)
    profile, _ = record(tmp_path, "5:8", TRAIN, 12, status=4)
    assert said(profile) == (
        "--steps=5:8: steps 5 to 7 of the program are recorded; a step ends with SGD.step"
    )
    assert said(profile) in (tmp_path / "run" / "report.txt").read_text().replace("\n      ", " ")
    assert profile["summary"]["steps_from"] == "optimizer_steps"
    steps = names_by_step(profile)
    assert len(steps) == 3 and steps[0] == steps[1] == steps[2]
    # A step of the whole program's, but for the first, which has its beginning.
    assert steps[0] == names_by_step(whole)[-1]
    # Its beginning takes the longest.
    assert whole["steps"][0]["phase"] == "warm_up"
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["timeline"]["steps"] == [5, 8] and "delay_s" not in run["timeline"]
    (one, _) = record(tmp_path, "11:12", TRAIN, 12, status=4)
    assert [step["phase"] for step in one["steps"]] == ["steady"]
    assert "step 11 of the program is recorded; a step ends" in said(one)


def test_a_program_that_ends_before_the_steps_or_among_them(tmp_path: Path) -> None:
    profile, errors = record(tmp_path, "20:40", TRAIN, 7, status=4)
    assert profile == {}
    assert (
        "--steps=20:40: nothing is recorded: the program ended after 7 steps; a step ends with SGD.step"
        in errors
    )
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["run.json"]
    # It ends in the step before the first one.
    more = TRAIN.replace("sys.exit", "net(torch.ones(2, 4)).exp()\nsys.exit")
    profile, errors = record(tmp_path, "8:9", more, 7, status=4)
    assert profile == {} and "nothing is recorded: the program ended after 7 steps" in errors
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["run.json"]
    profile, _ = record(tmp_path, "5:40", TRAIN, 7, status=4)
    assert len(profile["steps"]) == 2
    assert "steps 5 to 6 of the program are recorded, after which it ended" in said(profile)


def test_of_two_optimizers_a_step_has_both(tmp_path: Path) -> None:
    profile, _ = record(
        tmp_path,
        "3:6",
        "import torch\n"
        "generator, critic = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)\n"
        "own = torch.optim.Adam(generator.parameters())\n"
        "other = torch.optim.Adam(critic.parameters())\n"
        "for step in range(9):\n"
        "    critic(generator(torch.randn(2, 4)).detach()).exp().mean().backward()\n"
        "    other.step()\n"
        "    critic(generator(torch.randn(2, 4))).tanh().mean().backward()\n"
        "    own.step()\n",
    )
    assert "a step ends with Adam.step" in said(profile)
    assert [(n.count("aten::exp"), n.count("aten::tanh")) for n in names_by_step(profile)] == [
        (1, 1)
    ] * 3


def test_of_optimizers_of_unequal_rhythms_the_first_round_is_a_step(tmp_path: Path) -> None:
    profile, _ = record(
        tmp_path,
        "6:8",
        "import torch\n"
        "first, second = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))\n"
        "critic, own = torch.optim.Adam([first]), torch.optim.SGD([second])\n"
        "for step in range(9):\n"
        "    for _ in range(5):\n"
        "        first.exp().sum().backward()\n"
        "        critic.step()\n"
        "    (second.sin() if step in (6, 7) else second).tanh().sum().backward()\n"
        "    own.step()\n",
    )
    assert "steps 6 to 7 of the program are recorded" in said(profile)
    counts = [
        (n.count("aten::exp"), n.count("aten::sin"), n.count("aten::tanh"))
        for n in names_by_step(profile)
    ]
    assert counts == [(5, 1, 1)] * 2


def test_optimizers_that_one_line_steps_are_one_step(tmp_path: Path) -> None:
    text = (
        "import torch\n"
        "first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)\n"
        "optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (first, second)]\n"
        "for step in range(9):\n"
        "    second(first(torch.ones(2, 4))).exp().sum().backward()\n"
        "    for optimizer in optimizers:\n"
        "        optimizer.step()\n"
    )
    profile, _ = record(tmp_path, "2:5", text)
    assert [names.count("aten::exp") for names in names_by_step(profile)] == [1, 1, 1]
    whole = test_observer.observe(tmp_path / "whole", tmp_path / "program.py")
    assert [names.count("aten::exp") for names in names_by_step(whole)] == [1] * 9


def test_gradients_that_are_gathered_and_scaled(tmp_path: Path) -> None:
    profile, _ = record(
        tmp_path,
        "2:4",
        "import torch\n"
        "net = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.AdamW(net.parameters())\n"
        "scaler = torch.amp.GradScaler('cpu')\n"
        "for micro in range(20):\n"
        "    with torch.autocast('cpu', dtype=torch.bfloat16):\n"
        "        loss = net(torch.ones(2, 4)).float().exp().sum()\n"
        "    scaler.scale(loss).backward()\n"
        "    if micro % 4 == 3:\n"
        "        scaler.step(optimizer)\n"
        "        scaler.update()\n"
        "        optimizer.zero_grad()\n",
    )
    assert [names.count("aten::exp") for names in names_by_step(profile)] == [4, 4]


def test_steps_of_a_program_that_only_has_torch_profiler(tmp_path: Path) -> None:
    profile, _ = record(
        tmp_path,
        "3:5",
        "import torch\n"
        "net = torch.nn.Linear(4, 4)\n"
        "with torch.profiler.profile(schedule=lambda step: torch.profiler.ProfilerAction.NONE) as own:\n"
        "    for step in range(9):\n"
        "        net(torch.ones(2, 4)).exp()\n"
        "        own.step()\n",
    )
    assert "a step ends with a step of torch.profiler's" in said(profile)
    assert profile["summary"]["steps_from"] == "profiler_step"
    assert [names.count("aten::exp") for names in names_by_step(profile)] == [1, 1]


INFERENCE = """
import sys, time, torch
net = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3)))
for request in range(int(sys.argv[1])):
    net(torch.ones(2, 8)).sum()
    time.sleep(0.01)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(int(sys.argv[2])):
    net(torch.ones(2, 8)).exp().sum().backward()
    optimizer.step()
"""


def test_a_program_without_steps_is_recorded_and_told(tmp_path: Path) -> None:
    profile, _ = record(tmp_path, "2:4", INFERENCE, 12, 0)
    assert "its steps could not be counted: all of it is recorded" in said(profile)
    assert profile["summary"]["steps_from"] == "recurring_operators"
    assert len(profile["steps"]) == 12
    profile, errors = record(tmp_path, "2:4", INFERENCE, 200, 0, OPPROF_STEPS_SEARCH="0.3")
    assert "no optimizer and no torch.profiler has stepped for" in errors
    assert "s, which are recorded instead. Call step() of a torch.profiler" in said(profile)
    assert 5 < len(profile["steps"]) < 150
    # Where there are some after all, they are recorded, and nothing else.
    profile, errors = record(tmp_path, "2:4", INFERENCE, 200, 9, OPPROF_STEPS_SEARCH="0.3")
    assert "no optimizer and no torch.profiler has stepped for" in errors
    assert [names.count("aten::exp") for names in names_by_step(profile)] == [1, 1]


def test_workers_of_data_loaders_leave_nothing(tmp_path: Path) -> None:
    record(
        tmp_path,
        "2:4",
        "import torch\n"
        "class Rows(torch.utils.data.Dataset):\n"
        "    def __len__(self):\n"
        "        return 32\n"
        "    def __getitem__(self, index):\n"
        "        return torch.ones(4) * index\n"
        "net = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for rows in torch.utils.data.DataLoader(Rows(), 4, num_workers=2):\n"
        "    net(rows).sum().backward()\n"
        "    optimizer.step()\n",
    )
    assert len(list((tmp_path / "run").glob("operators-*"))) == 1


def test_each_rank_has_the_steps(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import time, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(8):\n"
        "    net(torch.ones(2, 4)).exp().sum().backward()\n"
        "    optimizer.step()\n" + test_observer.LAST_OF_RANKS,
    )
    run = tmp_path / "run"
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    done = opprof("run", "-o", run, "--steps=3:5", "--", *command, program)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        (file,) = run.glob(f"profile-r{rank}-p*.opprof.json")
        profile = json.loads(file.read_text())
        assert "steps 3 to 4 of the program are recorded" in said(profile)
        assert [names.count("aten::exp") for names in names_by_step(profile)] == [1, 1]


def test_kernels_of_the_steps_alone_are_captured(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import ctypes, os, sys, torch\n"
        "ctypes.CDLL(os.environ['CUDA_INJECTION64_PATH']).InitializeInjection()\n"
        "fake = ctypes.CDLL(os.environ['OPPROF_CUPTI_LIBRARY'])\n"
        "net = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "names = [f'step{step}'.encode() for step in range(int(sys.argv[1]))]\n"
        "for name in names:\n"
        "    net(torch.ones(2, 4)).sum().backward()\n"
        "    fake.fake_launch(name, 1, 1)\n"
        "    optimizer.step()\n",
    )
    run = tmp_path / "run"

    def recorded(steps: str, count: int) -> subprocess.CompletedProcess[str]:
        done = test_run_program.opprof("run", "-o", run, f"--steps={steps}", program, count)
        assert done.returncode == 0, done.stderr
        return done

    recorded("5:8", 12)
    profile = json.loads((run / "profile.opprof.json").read_text())
    assert names_by_step(profile) == [["step5"], ["step6"], ["step7"]]
    assert "steps 5 to 7 of the program are recorded" in said(profile)
    for file in run.iterdir():
        file.unlink()
    done = recorded("20:40", 12)
    assert "nothing is recorded: the program ended after 12 steps" in done.stderr
    assert [file.name for file in run.iterdir()] == ["run.json"]
    recorded("0:2", 12)
    profile = json.loads((run / "profile.opprof.json").read_text())
    assert names_by_step(profile) == [["step0"], ["step1"]]


COUNTED = """
import ctypes, os, sys, torch
ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()
fake = ctypes.CDLL(os.environ["OPPROF_CUPTI_LIBRARY"])
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    net(torch.ones(2, 4)).sum().backward()
    for name in (b"gemm", b"relu"):
        fake.fake_launch(name, 1 + (step % int(sys.argv[2]) == 0), 1)
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("steps", "rhythm", "variables", "counted"),
    [
        (20, 1, {}, [5, 7]),
        # Steps 6 and 12 launch other kernels; what was counted before is dropped each time.
        (20, 6, {}, [15, 17]),
        (20, 2, {}, "launch 0 was gemm grid (2, 1, 1)"),
        (5, 1, {}, "the program ended after 0 of the steps that are counted"),
        (2, 1, {}, "the program ended before step 4, from which on steps are counted"),
        # Step 6 is known to be another one when 7 ends, and 8 is noted anew.
        (
            8,
            6,
            {},
            "; 1 time, other kernels were launched than in the step that had been noted, and",
        ),
        (9, 6, {}, "the program ended after 0 of the steps that were counted anew"),
        (20, 1, {"FAKE_CUPTI_DENY": "1"}, "The driver keeps counters for administrators"),
    ],
)
def test_steps_after_those_that_are_recorded_are_counted(
    steps: int, rhythm: int, variables: dict[str, str], counted: Any, tmp_path: Path
) -> None:
    """A pass is two steps of the program, of which the first does not count; local memory takes a second pass."""
    run = tmp_path / "run"
    done = test_run_program.opprof(
        *("run", "-o", run, "--steps=1:3", "--counters=step", "--metrics=memory"),
        *(write(tmp_path, COUNTED), steps, rhythm),
        **variables,
    )
    assert done.returncode == 0, done.stderr
    profile = json.loads((run / "profile.opprof.json").read_text())
    if isinstance(counted, str):
        assert counted in done.stderr, done.stderr
        assert any(counted in note for note in profile["notes"]) and "step_counters" not in profile
        return
    (file,) = run.glob("counters-*.json")
    document = json.loads(file.read_text())
    schema = test_observer.ROOT / "docs" / "formats" / "counters.schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    (step,) = document["steps"]
    assert step["whole"]["report"]["counted_steps"] == counted
    # The fake counts thousands by metric, and each launch's number in the pass: those of the second run.
    raw = step["whole"]["raw"]
    assert raw and all(value % 1000 == 2 + 3 for value in raw.values())
    assert profile["step_counters"]["metrics"]
    assert names_by_step(profile) == [["gemm", "relu"]] * 2


def test_counters_are_asked_for_with_steps_and_of_a_gpu(tmp_path: Path) -> None:
    program = write(tmp_path, TRAIN)
    done = opprof("run", "-o", tmp_path / "run", "--counters=step", program, 3)
    assert done.returncode not in (0, 4) and "--steps=20:40 --counters=step" in done.stderr
    done = opprof(
        "run",
        "-o",
        tmp_path / "run",
        "--steps=1:2",
        "--counters=step",
        "--metrics=nonsense",
        program,
        3,
    )
    assert done.returncode not in (0, 4) and "nonsense" in done.stderr
    done = opprof("run", "-o", tmp_path / "run", "--steps=1:2", "--counters=step", program, 3)
    assert done.returncode == 4 and "hardware counters are taken of a GPU" in done.stderr
    assert (tmp_path / "run" / "report.txt").is_file()


def test_a_device_that_is_used_after_steps_began_to_count(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import ctypes, os, subprocess, sys, torch\n"
        "fake = ctypes.CDLL(os.environ['OPPROF_CUPTI_LIBRARY'])\n"
        "parameter = torch.nn.Parameter(torch.ones(4))\n"
        "optimizer = torch.optim.SGD([parameter], lr=0.1)\n"
        "names = [f'step{step}'.encode() for step in range(9)]\n"
        "for step in range(9):\n"
        "    parameter.sum().backward()\n"
        "    if step == 2:\n"
        "        ctypes.CDLL(os.environ['CUDA_INJECTION64_PATH']).InitializeInjection()\n"
        "        show = 'import os; print(bool(os.environ[\"OPPROF_CAPTURE_FILE\"]))'\n"
        "        subprocess.run([sys.executable, '-c', show], check=True)\n"
        "    fake.fake_launch(names[step], 1, 1)\n"
        "    optimizer.step()\n",
    )
    run = tmp_path / "run"
    done = test_run_program.opprof("run", "-o", run, "--steps=5:7", program)
    assert done.returncode == 0, done.stderr
    # What the program starts is captured as before.
    assert done.stdout == "True\n"
    (file,) = run.glob("profile*.opprof.json")
    assert names_by_step(json.loads(file.read_text())) == [["step5"], ["step6"]]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--steps=5",), "'5' are no steps: 20:40 are those from 20 to 39"),
        (("--steps=5:5",), "are no steps"),
        (("--steps=-1:5",), "are no steps"),
        (("--steps=1:5", "--duration", "2"), "each choose what is recorded"),
        (("--steps=1:5", "--wait"), "each choose what is recorded"),
    ],
)
def test_what_is_no_window_is_refused(options: tuple[str, ...], what: str, tmp_path: Path) -> None:
    done = opprof("run", "-o", tmp_path / "run", *options, write(tmp_path, TRAIN), 2)
    assert done.returncode not in (0, 4) and what in done.stderr, done.stderr
    assert not (tmp_path / "run").exists()


SERVER = """
import concurrent.futures, http.client, http.server, json, sys, threading, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).eval()
together = threading.Barrier(int(sys.argv[1]))
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with torch.inference_mode():
            answer = net(torch.tensor(rows))
            # As many as there are clients are answered at once.
            together.wait()
            answer = answer.softmax(-1)
        body = json.dumps(answer.tolist()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
class Server(http.server.ThreadingHTTPServer):
    # A daemon that runs in PyTorch while Python ends is ended in C++, which aborts the process now and then.
    daemon_threads = False
server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
def client(number):
    connection = None
    for request in range(12):
        connection = connection or http.client.HTTPConnection(*server.server_address)
        rows = [[0.5] * 64] * (1 + request % 3)
        connection.request("POST", "/", json.dumps(rows))
        connection.getresponse().read()
        if sys.argv[2] == "close":
            connection.close()
            connection = None
    if connection:
        connection.close()
with concurrent.futures.ThreadPoolExecutor(int(sys.argv[1])) as pool:
    list(pool.map(client, range(int(sys.argv[1]))))
server.shutdown()
server.server_close()
"""


def test_requests_of_a_server_are_steps_where_they_do_not_overlap(tmp_path: Path) -> None:
    """Each is answered on a thread of its own."""
    program = write(tmp_path, SERVER)
    profile = test_observer.observe(tmp_path / "one", program, 1, "close")
    (note,) = (note for note in profile["notes"] if "requests" in note)
    first, last = (
        re.escape(test_observer.line_of(program, text))
        for text in ("torch.tensor(rows)", "answer.tolist()")
    )
    assert re.fullmatch(
        r"steps are requests: 12 times, on 12 threads, \d+ operators follow one another, "
        rf"from aten::\w+ \({first}\) to aten::\w+ \({last}\); they are \d+\.\d % of all operators",
        note,
    ), note
    assert profile["summary"]["steps_from"] == "recurring_operators"
    assert [names.count("aten::softmax") for names in names_by_step(profile)] == [1] * 12
    assert {step["phase"] for step in profile["steps"][4:]} == {"steady"}
    # Until the next one comes the server waits, which is no request's time.
    steady = [step for step in profile["steps"] if step["phase"] == "steady"]
    taken = sum(step["end_ns"] - step["start_ns"] for step in steady)
    assert profile["summary"]["wall_ns"] == pytest.approx(taken, rel=0.05)


@pytest.mark.parametrize("connections", ["close", "keep"])
def test_requests_that_overlap_are_told_and_are_no_steps(connections: str, tmp_path: Path) -> None:
    program = write(tmp_path, SERVER)
    profile = test_observer.observe(tmp_path / "run", program, 3, connections)
    (note,) = (note for note in profile["notes"] if "requests" in note)
    assert note.startswith("requests: 36 times, on ")
    assert "up to 3 at once, so that no time is one request's alone and none is a step" in note
    assert profile["summary"]["steps_from"] == "none"

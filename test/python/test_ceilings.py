"""What `opprof ceilings` measures, refuses and writes, and what reports make of it. Nothing here depends on how fast the machine is."""

import json
from pathlib import Path
from time import perf_counter

import pytest
import torch

from opprof.commands import ceilings as module
from opprof.commands.ceilings import (
    Busy,
    Ceilings,
    Clock,
    Rate,
    lost_share_pct,
    measure_memory,
    measure_products,
    rate_of,
)
from opprof.commands.cli import main
from opprof.commands.report import report_json, report_text
from opprof.errors import OpprofError


class FakeDevice:
    """A clock that goes on by what each call takes, which is known."""

    def __init__(self, seconds_of_call):
        self.time = 0.0
        self.calls = 0
        self.seconds_of_call = seconds_of_call

    def clock(self, monkeypatch, name):
        """Replaces torch's function by one that only takes time."""

        def call(*args, **kwargs):
            self.calls += 1
            self.time += self.seconds_of_call(self.calls, args)

        monkeypatch.setattr(torch, name, call)
        return Clock(wait=lambda: None, now=lambda: self.time)


@pytest.mark.parametrize("fastest", [256, 1024, 2048])
def test_products_are_measured_at_the_size_that_is_fastest(monkeypatch, fastest):
    # 1 TFLOP/s there, by two operations a term, and half of it elsewhere.
    def seconds(_, args):
        rows = len(args[0])
        return 2.0 * rows**3 / (1e12 if rows == fastest else 0.5e12)

    clock = FakeDevice(seconds).clock(monkeypatch, "mm")
    monkeypatch.setattr(module, "SIZES", (256, 512, 1024, 2048))
    rate = measure_products("float32", torch.device("cpu"), clock, 1.0)
    assert (rate.size, rate.per_second) == (fastest, pytest.approx(1e12))
    assert rate.rounds >= module.FEWEST_ROUNDS
    assert rate.spread_pct == pytest.approx(0, abs=1e-6)


def test_larger_products_are_not_tried_when_they_would_take_too_long(monkeypatch):
    device = FakeDevice(lambda _, args: 1.0)
    clock = device.clock(monkeypatch, "mm")
    assert measure_products("float32", torch.device("cpu"), clock, 0.2).size == module.SIZES[0]


def test_memory_counts_what_is_read_and_written(monkeypatch):
    # A triad moves three operands: at 12 GB/s faster than the machine's own copy of two could make up for, in time that stands still.
    monkeypatch.setattr(module, "_operand_bytes", lambda _: 4096)
    device = FakeDevice(lambda *_: 3 * 4096 / 12e9)
    clock = device.clock(monkeypatch, "add")
    monkeypatch.setattr(torch.Tensor, "copy_", lambda *_: setattr(device, "time", device.time + 1))
    rate = measure_memory(torch.device("cpu"), clock, 0.1)
    assert (rate.per_second, rate.size) == (pytest.approx(12e9), 4096)


@pytest.mark.parametrize(("slower", "refused"), [(1.10, False), (1.12, True)])
def test_rounds_that_differ_too_much_are_refused(slower, refused):
    times = [1.0, slower, slower, slower, 1.05]
    if not refused:
        assert rate_of(10.0, times, 1, "copies", "GB/s").per_second == 10
        return
    with pytest.raises(Busy, match=r"the device is busy: of 5 rounds of copies .* 11 % less"):
        rate_of(10.0, times, 1, "copies", "GB/s")


@pytest.mark.parametrize(
    ("threads", "processors", "others", "lost"),
    [
        (2, 2, 0.0, 0),  # alone
        (2, 2, 1.0, 50),  # one of two processors is another's
        (2, 8, 4.0, 0),  # there are processors for others
        (8, 8, 4.0, 50),
        (2, 2, -0.1, 0),  # clocks tick by hundredths
    ],
)
def test_what_others_take_counts_where_there_is_no_room(threads, processors, others, lost):
    assert lost_share_pct(1.0, threads, processors, others) == lost


def test_a_rate_of_this_machine_agrees_with_its_own_operations(monkeypatch):
    """The only real measurement here, held against the same product timed by hand: a wrong count or unit is off by far more."""
    monkeypatch.setattr(module, "LARGEST_SPREAD_PCT", 100.0)
    monkeypatch.setattr(module, "SIZES", (256,))
    x = torch.rand(256, 256, dtype=torch.float64)

    def seconds_of_product() -> float:
        start = perf_counter()
        for _ in range(20):
            x @ x
        return (perf_counter() - start) / 20

    before = [seconds_of_product() for _ in range(10)]
    rate = measure_products("float64", torch.device("cpu"), Clock(), 0.05)
    by_hand = min(before + [seconds_of_product() for _ in range(10)])
    assert rate.size == 256 and rate.rounds >= module.FEWEST_ROUNDS
    # Each of the 256² results has 256 products and as many sums.
    assert 1 / 5 < rate.per_second / (256 * 256 * (256 + 256) / by_hand) < 5


@pytest.mark.parametrize(
    ("answer", "idle"),
    [
        (0.0, "checked: others used 0 % of the GPU before the start (nvidia-smi)"),
        (None, "not checked: nvidia-smi did not say how much of the GPU others use"),
    ],
)
def test_whether_others_were_looked_for_is_written(tmp_path, monkeypatch, answer, idle):
    monkeypatch.setattr(module, "synchronize", lambda: None)
    monkeypatch.setattr(module, "_ask_nvidia_smi", lambda *_: answer)
    found = module._check_idle(torch.device("cuda"))
    assert found == idle
    file = made(tmp_path, idle=found)
    assert json.loads(file.read_text())["idle"] == idle


def test_a_gpu_that_others_use_is_refused(monkeypatch):
    monkeypatch.setattr(module, "synchronize", lambda: None)
    monkeypatch.setattr(module, "_ask_nvidia_smi", lambda *_: 50.0)
    with pytest.raises(Busy, match="others use 50 % of it"):
        module._check_idle(torch.device("cuda"))


@pytest.mark.parametrize(
    ("answers", "begins"),
    [
        ([None, None], "not checked: /proc/stat"),
        ([(2, 10.0), (2, 10.0)], "checked: others took 0.0 % of"),
    ],
)
def test_what_a_cpu_was_seen_to_do_is_told(monkeypatch, answers, begins):
    read = iter([answer and module._Processors(*answer) for answer in answers])
    monkeypatch.setattr(module._Processors, "read", lambda: next(read))
    processing = module._Processing()
    assert processing.check(2).startswith(begins)


def test_what_is_printed_says_whether_others_were_looked_for():
    rate = Rate(2e12, 0.5, 9, 1 << 30)
    found = Ceilings({"type": "cuda", "name": "GPU"}, rate, {}, "not checked: no answer")
    assert found.as_text().splitlines()[-1] == "  idle      not checked: no answer"


@pytest.mark.parametrize("value", ["0.04", "61", "nan", "long"])
def test_a_rate_takes_some_time_and_not_all(tmp_path, capsys, value):
    with pytest.raises(SystemExit):
        main(["ceilings", "-o", str(tmp_path / "ceilings.json"), f"--seconds={value}"])
    error = capsys.readouterr().err
    assert f"argument --seconds: {value} is no time from 0.05 to 60 seconds" in error
    assert not list(tmp_path.iterdir())


def made(tmp_path: Path, *, idle: str = "checked: alone", **device) -> Path:
    file = tmp_path / "ceilings.json"
    facts = {"type": "cuda", "name": "NVIDIA Made 1000", **device}
    Ceilings(
        facts,
        Rate(2e12, 0.5, 9, 1 << 30),
        {"float32": Rate(30e12, 1.0, 9, 8192), "bfloat16": Rate(300e12, 1.0, 9, 8192)},
        idle,
        {"float64": "no kernel"},
    ).write(file)
    return file


def trace(tmp_path: Path, name: str) -> Path:
    """A product of 1024 rows in fp32, which ran for 100 µs on a device of this name."""
    rows = [[1024, 1024], [1024, 1024]]
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 20,
         "args": {"External id": 1, "Input Dims": rows, "Input type": ["float", "float"]}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5, "dur": 5,
         "args": {"External id": 1, "correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x128_nn", "pid": 0, "tid": 7, "ts": 30, "dur": 100,
         "args": {"External id": 1, "correlation": 1, "device": 0, "stream": 7}},
    ]  # fmt: skip
    file = tmp_path / "trace.json"
    device = {"id": 0, "name": name, "numSms": 100}
    file.write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))
    return file


def roofline(text: str) -> dict:
    found = [finding for finding in json.loads(text)["findings"] if finding["id"] == "roofline"]
    return found[0]["evidence"] if found else {}


def test_a_report_holds_kernels_against_what_was_measured(tmp_path):
    recorded = trace(tmp_path, "NVIDIA Made 1000")
    # No table has it: without the file there is no roof.
    assert not roofline(report_json(recorded))
    held = roofline(report_json(recorded, ceilings=made(tmp_path)))
    assert held["ceilings"]["device"] == "NVIDIA Made 1000"
    assert held["ceilings"]["memory_bytes"] == {
        "rate_per_s": 2e12,
        "origin": "measured on this device",
    }
    # 2 · 1024³ operations at 30 TFLOP/s.
    assert held["most_above_roof"][0]["roof_ns"] == round(2 * 1024**3 / 30e12 * 1e9)
    # What was not measured of a device that no table has is no ceiling.
    assert held["ceilings"]["tf32_flops"]["rate_per_s"] == 0
    assert "2.0 TB/s measured on this device" in report_text(
        recorded, width=200, ceilings=made(tmp_path)
    )


def test_a_measured_device_of_the_table_keeps_what_was_not_measured(tmp_path):
    recorded = trace(tmp_path, "NVIDIA H200")
    held = roofline(report_json(recorded, ceilings=made(tmp_path, name="NVIDIA H200")))
    assert held["ceilings"]["fp32_flops"] == {
        "rate_per_s": 30e12,
        "origin": "measured on this device",
    }
    assert held["ceilings"]["fp16_flops"]["rate_per_s"] == 788e12


def test_another_devices_ceilings_are_refused(tmp_path):
    recorded = trace(tmp_path, "NVIDIA H200")
    with pytest.raises(
        OpprofError,
        match=r"was measured on 'NVIDIA Made 1000', and .*trace.json is of 'NVIDIA H200'",
    ):
        report_json(recorded, ceilings=made(tmp_path))


def test_what_lies_in_a_run_folder_counts_by_itself(tmp_path):
    recorded = trace(tmp_path, "NVIDIA Made 1000")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "profile.opprof.json").write_text(report_json(recorded))
    assert not roofline(report_json(folder))
    made(folder)
    held = report_json(folder)
    assert roofline(held)["ceilings"]["device"] == "NVIDIA Made 1000"
    # What is written so has them itself, and says the same.
    (folder / "profile.opprof.json").write_text(held)
    assert report_json(folder) == held
    (folder / "ceilings.json").unlink()
    assert report_json(folder) == held
    # Those of another device say nothing of this one.
    (folder / "profile.opprof.json").write_text(report_json(recorded))
    made(folder, name="NVIDIA Other")
    assert not roofline(report_json(folder))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda known: known.update(version=2), "version 2 of a ceilings.json is not known"),
        (lambda known: known.pop("memory"), "must both be measured"),
        (lambda known: known["products"].pop("float32"), "must both be measured"),
        (lambda known: known.pop("device"), 'does not say which "device"'),
        (lambda known: known["memory"].update(bytes_per_second=0), "must be a rate a second"),
        (lambda known: known["memory"].update(bytes_per_second=1e300), "must be a rate a second"),
        (lambda known: known["memory"].update(bytes_per_second="fast"), "must be a number"),
    ],
)
def test_a_file_that_says_nothing_is_refused(tmp_path, change, error):
    file = made(tmp_path)
    known = json.loads(file.read_text())
    change(known)
    file.write_text(json.dumps(known))
    with pytest.raises(OpprofError, match=error):
        report_json(trace(tmp_path, "NVIDIA Made 1000"), ceilings=file)


def test_the_command_writes_nothing_where_it_refuses(tmp_path, monkeypatch, capsys):
    def busy(*_, **__):
        raise Busy("others use 50 % of it")

    monkeypatch.setattr(module, "measure_ceilings", busy)
    target = tmp_path / "ceilings.json"
    assert main(["ceilings", "-o", str(target)]) == 1
    assert "the device is busy: others use 50 % of it" in capsys.readouterr().err
    assert not target.exists()


def test_other_findings_of_a_saved_profile_stay_as_they_are(tmp_path):
    """A file has not all of what they rest on: of idle time it has not what the host did meanwhile."""
    recorded = trace(tmp_path, "NVIDIA Made 1000")
    events = json.loads(recorded.read_text())
    more = [dict(event, ts=event["ts"] + 5000) for event in events["traceEvents"]]
    for event in more:
        event["args"] = {**event["args"], "External id": 2, "correlation": 2}
    loading = {
        "ph": "X",
        "cat": "user_annotation",
        "name": "loading",
        "pid": 1,
        "tid": 1,
        "ts": 200,
        "dur": 4700,
    }
    events["traceEvents"] += [*more, loading]
    recorded.write_text(json.dumps(events))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "profile.opprof.json").write_text(report_json(recorded))
    before = json.loads(report_json(folder))["findings"]
    assert "loading" in json.dumps(before)
    made(folder)
    after = json.loads(report_json(folder))["findings"]
    assert [
        finding
        for finding in after
        if finding["id"] not in ("roofline", "tensor-cores-idle", "goodput")
    ] == before
    assert len(after) > len(before)

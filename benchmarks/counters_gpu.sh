#!/bin/bash
# Proves `opprof run --counters=step` on a GPU: a training program is counted while it runs, once with one set of counters and once with
# several, and its losses are those of a run without.
#
#     benchmarks/counters_gpu.sh [PYTHON]
#
# Needs build/lib/libopprof_capture.so and build/bin/opprof-driver, and compiles the observer for the installed PyTorch (g++, Python's
# headers). Prints what was counted against what is known of the step, and "counters: passed" or what was wrong. Takes a minute.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PYTHONPATH=$root/python OPPROF_TOOLS_DIR=${OPPROF_TOOLS_DIR:-$root/build/bin}
export OPPROF_CAPTURE_LIBRARY=${OPPROF_CAPTURE_LIBRARY:-$root/build/lib/libopprof_capture.so} OPPROF_OBSERVER_LIBRARIES=$folder/lib

fail() {
  echo "counters: FAILED: $1"
  cat "$folder"/*.log
  exit 1
}

"$python" -c "import sys; sys.path.insert(0, '$root/benchmarks')
import observer, pathlib; observer.build(pathlib.Path('$folder/lib'))" 2>"$folder/build.log" || fail "the observer was not built"
cat >"$folder/train.py" <<'PROGRAM'
import torch
torch.manual_seed(0)
layers = [torch.nn.Linear(4096, 4096) for _ in range(4)]
net = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, foreach=True)
x = torch.randn(4096, 4096, device="cuda")
for step in range(120):
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
print(loss.item().hex())
PROGRAM
bare=$("$python" "$folder/train.py") || fail "the program itself"
for metrics in default default,memory,pipes; do
  out=$folder/$metrics
  counted=$("$python" -m opprof run --steps=10:20 --counters=step --metrics=$metrics -o "$out" "$folder/train.py" 2>"$folder/run.log") ||
    fail "the program's status with $metrics"
  [ "$counted" = "$bare" ] || fail "the loss is $counted and not $bare"
  "$python" - "$out" <<'CHECK' || fail "counters of $metrics"
import json, pathlib, sys
run = pathlib.Path(sys.argv[1])
profile = json.loads((run / "profile.opprof.json").read_text())
(file,) = run.glob("counters-*.json")
(step,) = json.loads(file.read_text())["steps"]
if "whole" not in step:
    sys.exit(f"no counters: {step['report']}")
whole, report = step["whole"], step["whole"]["report"]
names = {"counted_steps", "passes", "chip"}
print({name: report[name] for name in sorted(names)}, whole["metrics"])
steady = [s for s in profile["steps"] if s["phase"] == "steady"]
recorded = sum(s["end_ns"] - s["start_ns"] for s in steady) / len(steady)
print(f"a step of the timeline takes {recorded / 1e3:.0f} us")
# Weights of 64 MiB are read and written by each of four layers at least.
moved = sum(whole["metrics"].get(f"dram_{way}_bytes", 0) for way in ("read", "write"))
if moved < 8 * 4 * 4096 * 4096:
    sys.exit(f"{moved} bytes are fewer than the weights have")
sys.exit("step_counters" not in profile)
CHECK
done
echo "counters: passed"

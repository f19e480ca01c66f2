#!/bin/bash
# Proves `opprof attach` on a GPU: a training program under `opprof run --wait` is recorded twice while it runs.
#
#     benchmarks/attach_gpu.sh [PYTHON]
#
# Needs build/lib/libopprof_capture.so and build/bin/opprof-driver, and compiles the observer for the installed PyTorch (g++, Python's
# headers). Prints a line for each recording, and "attach: passed" or what was wrong. Takes under a minute.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PYTHONPATH=$root/python OPPROF_TOOLS_DIR=${OPPROF_TOOLS_DIR:-$root/build/bin}
export OPPROF_CAPTURE_LIBRARY=${OPPROF_CAPTURE_LIBRARY:-$root/build/lib/libopprof_capture.so} OPPROF_OBSERVER_LIBRARIES=$folder/lib

fail() {
  echo "attach: FAILED: $1"
  cat "$folder"/*.log
  exit 1
}

"$python" -c "import sys; sys.path.insert(0, '$root/benchmarks')
import observer, pathlib; observer.build(pathlib.Path('$folder/lib'))" 2>"$folder/build.log" || fail "the observer was not built"
cat >"$folder/train.py" <<'PROGRAM'
import pathlib, sys, torch
net = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.AdamW(net.parameters())
stop = pathlib.Path(sys.argv[1])
while not stop.exists():
    optimizer.zero_grad()
    net(torch.ones(256, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    torch.cuda.synchronize()
PROGRAM
"$python" -m opprof run --wait -o "$folder/control" "$folder/train.py" "$folder/stop" 2>"$folder/run.log" &
runner=$!
for _ in $(seq 60); do
  compgen -G "$folder/control/waiting-p*" >/dev/null && break
  kill -0 $runner 2>/dev/null || fail "the program ended"
  sleep 0.5
done
waiting=$(compgen -G "$folder/control/waiting-p*") || fail "the program does not wait"
# The device's first use takes a while.
sleep 4
for turn in 1 2; do
  "$python" -m opprof attach "${waiting##*-p}" -o "$folder/$turn" --seconds 2 >"$folder/attach$turn.log" 2>&1 || fail "attach $turn"
  "$python" - "$folder/$turn/profile.opprof.json" <<'CHECK' || fail "recording $turn"
import json, sys
profile = json.load(open(sys.argv[1]))
kernels = profile["kernels"]
placed = sum(k["duration_ns"] for k in kernels if k.get("source")) / max(1, sum(k["duration_ns"] for k in kernels))
print(f"{len(kernels)} kernels, {profile['summary'].get('steps')} steps, {placed:.1%} of kernel time has a line")
sys.exit(not kernels or placed < 0.95)
CHECK
done
touch "$folder/stop"
wait $runner || fail "the program ended with another status"
echo "attach: passed"

#!/usr/bin/env bash
# What planted faults are said to cost, on a GPU (results/planted-faults-gpu.md). Compiles the observer for the installed PyTorch first (g++,
# Python's headers; observer_gpu.sh measures it). Needs build/bin/opprof-driver and build/lib/libopprof_capture.so. Leaves the table
# (planted.txt), the same as JSON (planted.json) and the recordings of the faulty programs under $OUT. Ten faults take about four minutes;
# after seven the faults that are done are kept, of which there are none before all have run bare. Arguments are those of planted_faults.py,
# in the place of the ten.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-/tmp/planted-faults}
[ $# -gt 0 ] || set -- --rounds 9 --jobs 3 --only clip,zero-grad,layer-norm,optimizer,ema,attention,copies,loader,sgd,gc
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$PWD/python OPPROF_TOOLS_DIR=${OPPROF_TOOLS_DIR:-$PWD/build/bin} OPPROF_OBSERVER_LIBRARIES=$work/lib
export OPPROF_CAPTURE_LIBRARY=${OPPROF_CAPTURE_LIBRARY:-$PWD/build/lib/libopprof_capture.so}
python - "$work/lib" <<'PY'
import sys
from pathlib import Path

sys.path.insert(0, "benchmarks")
import observer

observer.build(Path(sys.argv[1]))
PY
timeout 420 python benchmarks/planted_faults.py --device cuda -o "$work/faults" "$@" 2>&1 | grep --line-buffered -v -i warn | tee "$out/planted.txt"
cp "$work/faults/planted.json" "$out/" || true
cd "$work/faults" && ls -d -- *-faulty | split -l 5 - "$work/part"
for part in "$work"/part*; do
  # What a folder is made of; the rest can be made again.
  find $(cat "$part") \( -name '*.opcap' -o -name run.json \) -print0 | tar czf "$out/recordings-${part##*part}.tgz" --null -T -
done
ls -la "$out"

#!/usr/bin/env bash
# The observer on a GPU, in one call: builds its libraries for the PyTorch that is there, measures what it costs, and says how much of
# kernel time has operator, module and line. Needs opprof's tools in $OPPROF_TOOLS_DIR and the capture library beside them in ../lib.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-/tmp/observer-gpu}
mkdir -p "$out"
export OPPROF_OBSERVER_LIBRARIES=$out/lib PYTHONPATH=$PWD/python
python benchmarks/observer.py --build --device cuda --libraries "$out/lib" --rounds 5 | tee "$out/cost.txt"
python -m opprof run -o "$out/run" benchmarks/train_transformer.py 60
python - "$out/run" <<'PY'
import collections, json, sys
from pathlib import Path

profile = json.loads((Path(sys.argv[1]) / "profile.opprof.json").read_text())
sums = collections.Counter()
for kernel in profile["kernels"]:
    sums["all"] += kernel["duration_ns"]
    for key in ("host_op", "module", "source"):
        sums[key] += kernel["duration_ns"] if kernel.get(key) else 0
print(*(f"{key}: {100 * value / sums['all']:.2f} %" for key, value in sums.items()), sep="\n")
print("steps", profile["summary"]["steps_from"], profile["summary"].get("steps"))
PY

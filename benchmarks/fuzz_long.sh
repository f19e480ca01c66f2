#!/usr/bin/env bash
# Fuzzes every reader and writer, one after the other, and prints what each executed and covered, and what it found.
#
#   benchmarks/fuzz_long.sh                    an hour for all together
#   benchmarks/fuzz_long.sh 600 pt2 capture    ten minutes for these two
#
# Builds the preset `fuzz` first. What is found is kept as build-fuzz/found/NAME-crash-…: an input that is mended moves to
# unittests/fuzz/corpus/NAME/, which test.sh runs. What covers something new stays in build-fuzz/corpus/NAME, minimized.
set -uo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-3600}
shift || true
cmake --preset fuzz -DOPPROF_PYTHON="${OPPROF_PYTHON:-$PWD/.venv/bin/python}" >/dev/null && cmake --build --preset fuzz >/dev/null ||
  { echo "benchmarks/fuzz_long.sh: the fuzzers cannot be built: cmake --build --preset fuzz" >&2; exit 1; }
names=("$@")
if [ ${#names[@]} = 0 ]; then
  for fuzzer in build-fuzz/fuzz/*; do [ -x "$fuzzer" ] && names+=("$(basename "$fuzzer")"); done
fi

mkdir -p build-fuzz/found
failed=0
printf '%-16s %12s %10s %10s %8s  %s\n' fuzzer executions coverage features inputs found
for name in "${names[@]}"; do
  fuzzer=build-fuzz/fuzz/$name corpus=build-fuzz/corpus/$name seeds=unittests/fuzz/corpus/$name log=build-fuzz/$name.log
  [ -x "$fuzzer" ] || { echo "there is no fuzzer $name" >&2; exit 2; }
  mkdir -p "$corpus" "$seeds"
  "$fuzzer" -max_total_time=$((seconds / ${#names[@]})) -max_len=65536 -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="build-fuzz/found/$name-" "$corpus" "$seeds" >"$log" 2>&1
  status=$?
  # A smaller set of inputs that covers the same.
  rm -rf "$corpus.small"
  mkdir "$corpus.small"
  if "$fuzzer" -merge=1 -max_len=65536 -timeout=20 "$corpus.small" "$corpus" "$seeds" >/dev/null 2>&1; then
    rm -rf "$corpus" && mv "$corpus.small" "$corpus"
  fi
  read -r coverage features <<<"$(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) .*/\1 \2/p' "$log" | tail -n 1)"
  printf '%-16s %12s %10s %10s %8s  %s\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "${coverage:--}" \
    "${features:--}" "$(find "$corpus" -type f | wc -l)" "$([ $status = 0 ] && echo nothing || sed -n 's/.*Test unit written to //p' "$log")"
  [ $status = 0 ] || failed=1
done
exit $failed

#!/usr/bin/env bash
# Sets the machine up, builds, runs every test, and closes with one line: how many passed, how many failed.
#
#   ./test.sh             everything
#   ./test.sh --no-fuzz   all but the libFuzzer targets, which need a build of their own
#
# OPPROF_TEST_MINUTES ends what goes on after so many minutes, as where something else would end all of it.
#
# Each fuzzer makes the same OPPROF_FUZZ_RUNS inputs (10000) every time, from OPPROF_FUZZ_SEED (1), so that a check that
# fails fails again; benchmarks/fuzz_long.sh looks for new ones.
set -uo pipefail
cd "$(dirname "$0")"

with_fuzzers=yes
case "${1:-}" in
  "") ;;
  --no-fuzz) with_fuzzers=no ;;
  *) echo "usage: ./test.sh [--no-fuzz]" >&2; exit 2 ;;
esac

./setup.sh --test || exit 1

results=$PWD/build/test-results
rm -rf "$results"
mkdir -p "$results"
python=.venv/bin/python
# lit comes with Debian's LLVM tools.
export PATH=$PWD/.venv/bin:$PATH:/usr/lib/llvm-22/bin

# check NAME COMMAND…: one check of test.sh itself, counted as one test.
check() {
  local name=$1
  shift
  echo "== $name"
  if "$@"; then echo "$name passed" >>"$results/checks"; else echo "$name FAILED" >>"$results/checks"; fi
}

# OPPROF_TEST_MINUTES, since the beginning: a machine that is slow does without the end of what takes longest and finds least.
# leave_out NAME: says so, and that it is neither passed nor failed.
in_time() { [ -z "${OPPROF_TEST_MINUTES:-}" ] || [ "$SECONDS" -lt $((OPPROF_TEST_MINUTES * 60)) ]; }
leave_out() { echo "== $1 LEFT OUT: $OPPROF_TEST_MINUTES minutes were over" | tee -a "$results/left-out"; }

# start COMMAND…: runs it beside this script, as a group of processes that ends with the script, however that ends.
# finish: waits for it.
group=
start() {
  set -m
  "$@" </dev/null &
  group=$!
  set +m
}
# Where the time is over it is ended, which is no failure.
finish() {
  local status=0
  while jobs -rp | grep -qx "$group"; do
    in_time || { kill -- "-$group" 2>/dev/null; break; }
    sleep 0.2
  done
  wait "$group" 2>/dev/null || status=$?
  group=
  in_time || return 0
  return $status
}
trap '[ -z "$group" ] || kill -- "-$group" 2>/dev/null' EXIT
# pytest ends of its own on an interrupt, and the shell would go on with what comes next.
trap 'exit 130' INT

check_format() {
  find include lib tools unittests \( -name '*.cpp' -o -name '*.h' \) -print0 |
    xargs -0 clang-format-22 --dry-run --Werror
}
check "clang-format" check_format
check "ruff check" ruff check .
check "ruff format" ruff format --check .
check "mypy" mypy

check "build of the tests" cmake --build build --target opprof-test-depends
echo "== ctest: gtest"
GTEST_OUTPUT=xml:$results/gtest/ ctest --test-dir build --output-on-failure -E '^lit$' -j "$(nproc)" ||
  echo "ctest FAILED" >>"$results/checks"
if echo 'int main() {}' | clang++-22 -fsanitize=thread -x c++ -o "$results/thread-probe" - 2>/dev/null &&
  "$results/thread-probe" 2>/dev/null; then
  build_tsan() {
    cmake --preset tsan -DOPPROF_PYTHON="$PWD/.venv/bin/python" >build/tsan-configure.log &&
      cmake --build --preset tsan
  }
  check "build with ThreadSanitizer" build_tsan
  check "the capture library under ThreadSanitizer" build-tsan/unittests/CaptureTest --gtest_brief=1
else
  echo "== ThreadSanitizer does not run here (clang-22, libclang-rt-22-dev): its check of the capture library is left out"
fi
echo "== lit"
lit -sv --xunit-xml-output "$results/lit.xml" build/test || echo "lit FAILED" >>"$results/checks"

# What only compiles goes on beside pytest, which hardly ever has work for a second core, with what pytest leaves of the
# machine; it is printed after it.
build_fuzzers() {
  cmake --preset fuzz -DOPPROF_PYTHON="$PWD/.venv/bin/python" >build/fuzz-configure.log &&
    cmake --build --preset fuzz
}
beside_pytest() {
  renice -n 19 "$BASHPID" >/dev/null
  # LLVM's checks on every source file of the build. It reads only what changed since it last found nothing there, by
  # what ninja knows of the files that each object depends on; so it comes after the build.
  check "clang-tidy" $python test/clang_tidy.py build
  [ "$with_fuzzers" = no ] || check "build of the fuzzers" build_fuzzers
}
start beside_pytest >"$results/beside-pytest.log" 2>&1
echo "== pytest"
# Threads of PyTorch's that wait for each other sleep: while they spin, what they wait for does not run.
OMP_WAIT_POLICY=passive $python -m pytest --junitxml "$results/pytest.xml" || echo "pytest FAILED" >>"$results/checks"
finish || echo "what runs beside pytest FAILED" >>"$results/checks"
cat "$results/beside-pytest.log"
grep -q "^clang-tidy " "$results/checks" || leave_out clang-tidy

# A fuzzer says much on stderr that matters only where it stops.
run_fuzzer() {
  local fuzzer=$1 name=$2 corpus=$results/corpus/$2 seeds=unittests/fuzz/corpus/$2
  mkdir -p "$corpus"
  "$fuzzer" -seed="${OPPROF_FUZZ_SEED:-1}" -runs="${OPPROF_FUZZ_RUNS:-10000}" \
    -max_total_time=20 -max_len=65536 -timeout=20 \
    -rss_limit_mb=4096 -artifact_prefix="$results/" -print_final_stats=0 -verbosity=0 \
    "$corpus" $([ -d "$seeds" ] && echo "$seeds") >"$results/fuzz-$name.log" 2>&1 ||
    { tail -n 60 "$results/fuzz-$name.log"; return 1; }
}
# One a core and nothing beside them: the bound on a fuzzer's time is one of the clock.
run_fuzzers() {
  local fuzzer name
  for fuzzer in build-fuzz/fuzz/*; do
    [ -x "$fuzzer" ] && [ -f "$fuzzer" ] || continue
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    name=$(basename "$fuzzer")
    { said=$(check "fuzz $name" run_fuzzer "$fuzzer" "$name"); echo "$said"; } &
  done
  wait
}
if [ "$with_fuzzers" = yes ]; then
  if in_time; then
    start run_fuzzers
    finish || echo "the fuzzers FAILED" >>"$results/checks"
  fi
  in_time || leave_out "what fuzzers have not done"
fi

[ ! -f "$results/left-out" ] || cat "$results/left-out"
exec $python test/summarize.py "$results"

#!/usr/bin/env bash
# Makes a fresh Debian machine ready: installs the packages that are missing, makes .venv with PyTorch, and installs opprof into it.
#
#   ./setup.sh          what the `opprof` command needs
#   ./setup.sh --test   and what ./test.sh needs
#   ./setup.sh --packages   the system's packages alone, as .ci/wheel needs them
#
# OPPROF_TORCH_VERSION names another PyTorch than 2.13.0, as .ci/torch does.
#
# As root, or as a user who may use sudo where packages are missing. A second run finds everything in place and ends quickly.
set -euo pipefail
cd "$(dirname "$0")"

with_tests=no
only_packages=no
case "${1:-}" in
  "") ;;
  --test) with_tests=yes ;;
  --packages) only_packages=yes ;;
  *) echo "usage: ./setup.sh [--test | --packages]" >&2; exit 2 ;;
esac

mkdir -p build
log=$PWD/build/setup.log
: >"$log"

# step NAME COMMAND…: runs the command with its output in the log, and prints one line; prints the end of the log on failure.
step() {
  local name=$1 start=$SECONDS
  shift
  printf '%-44s' "$name"
  echo "=== $name: $*" >>"$log"
  if "$@" >>"$log" 2>&1; then
    echo "done ($((SECONDS - start)) s)"
  else
    echo "FAILED"
    echo "--- the end of $log:"
    tail -n 40 "$log"
    exit 1
  fi
}

packages=(
  cmake ninja-build ccache g++ lld-22
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools
  libsimdjson-dev libdeflate-dev libsqlite3-dev libminizip-dev zlib1g-dev libzstd-dev
  libseccomp-dev libgtest-dev python3-venv python3-dev
)
[ "$with_tests" = no ] || packages+=(clang-22 libclang-rt-22-dev clang-format-22 clang-tidy-22)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done

# apt_install PACKAGE…: installs them, as root.
apt_install() {
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "run this as root, or install sudo"; return 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

install_packages() {
  apt_install "${missing[@]}" || {
    echo "Packages are missing. LLVM 22 is in Debian 12's security archive and in Debian testing;"
    echo "for other systems see https://apt.llvm.org."
    return 1
  }
}
[ ${#missing[@]} = 0 ] || step "Installing ${#missing[@]} packages" install_packages
[ "$only_packages" = no ] || exit 0

# The tests of pages say that they are skipped where there is none.
install_chromium() { apt_install chromium || true; }
if [ "$with_tests" = yes ] && ! command -v chromium >/dev/null; then
  step "Installing chromium" install_chromium
fi

requirements=("torch==${OPPROF_TORCH_VERSION:-2.13.0}" numpy setuptools "scikit-build-core>=1.0")
[ "$with_tests" = no ] || requirements+=("pytest>=8" "hypothesis>=6" "jsonschema>=4" "ruff>=0.6" "mypy>=1.11")

install_requirements() {
  # PyPI's PyTorch brings three gigabytes of CUDA libraries. Where there is no GPU, OPPROF_TORCH_INDEX may name
  # an index that has the CPU build, as PyTorch's own does.
  local index=()
  [ -z "${OPPROF_TORCH_INDEX:-}" ] || index=(--extra-index-url "$OPPROF_TORCH_INDEX")
  .venv/bin/python -m pip install --disable-pip-version-check "${index[@]}" "${requirements[@]}"
}
if [ ! -x .venv/bin/python ]; then
  step "Making .venv" /usr/bin/python3 -m venv .venv
fi
stamp=.venv/.opprof-requirements
missing_requirements=no
for requirement in "${requirements[@]}"; do
  grep -qxF "$requirement" "$stamp" 2>/dev/null || missing_requirements=yes
done
if [ "$missing_requirements" = yes ]; then
  step "Installing PyTorch and Python packages" install_requirements
  printf '%s\n' "${requirements[@]}" >>"$stamp"
fi

# For this machine: it links the system's libraries, and makes the tests too.
install_opprof() {
  CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) CMAKE_GENERATOR=Ninja \
    .venv/bin/python -m pip install --disable-pip-version-check --no-build-isolation --no-deps \
    --config-settings=build-dir=build --config-settings=wheel.tags="py3-none-linux_$(uname -m)" \
    --config-settings=cmake.define.OPPROF_PORTABLE=OFF --config-settings=cmake.define.OPPROF_BUILD_TESTS=ON \
    --config-settings=cmake.define.OPPROF_PYTHON="$PWD/.venv/bin/python" .
}
step "Building and installing opprof" install_opprof

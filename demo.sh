#!/usr/bin/env bash
# Sets the machine up, then does the main job on GPT-2 small, on the GPU when there is one: out/ holds what came of it.
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh
exec .venv/bin/opprof optimize examples/gpt2.py -o out/

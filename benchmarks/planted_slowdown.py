"""Profiles a small model on the CPU, and again with one node made slower, and counts what `opprof diff` says of both.

    PYTHONPATH=python OPPROF_TOOLS_DIR=build/bin python benchmarks/planted_slowdown.py [--equal 2] [--recordings 3] [--iters 20] [-o FILE.json]

The model looks rows of several tables up and mixes them. Ids that lie close together find their rows in the caches; in a changed run those of one
table are scattered over all of it: the graph, the shapes and the work are the same, and one node waits for the memory. Every table is changed once,
and some pairs are equal. The recordings of a pair's two sides take turns, each in a process of its own, with one thread.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TABLES = 6
MODEL = f"""
import os
import torch
from torch import nn

TABLES, ROWS, SIZE, IDS, NEAR = {TABLES}, 200_000, 64, 8192, 2048


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, SIZE) for _ in range(TABLES))
        self.mix = nn.Sequential(nn.Linear(TABLES * SIZE, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, ids):
        rows = [table(ids[place]) for place, table in enumerate(self.tables)]
        return self.mix(torch.cat(rows, -1))


def get_model_and_input():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ids = torch.randint(NEAR, (TABLES, IDS))
    scattered = os.environ.get("SCATTERED")
    if scattered:
        ids[int(scattered)] = torch.randint(ROWS, (IDS,))
    return Recommender().eval(), (ids,)
"""


def opprof(*arguments: str | Path, **environment: str) -> str:
    """What a command prints; ends the program with the command's own words where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "opprof", *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"opprof {' '.join(map(str, arguments))} failed:\n{done.stderr[-4000:]}")
    return done.stdout


def node_of(table: int) -> str:
    """The node of a table's lookup."""
    return f"embedding_{table}" if table else "embedding"


def compare(
    model: Path, folder: Path, recordings: int, iters: int, table: int | None
) -> dict[str, object]:
    """A pair, the second side with the ids of a table scattered: what is called changed, and the planted node's times."""
    sides: tuple[list[Path], list[Path]] = ([], [])
    for recording in range(recordings):
        for side, scattered in zip(sides, ["", "" if table is None else str(table)], strict=True):
            run = folder / f"{len(list(folder.iterdir()))}-{recording}"
            options = ["--mode", "eager", "--no-eager", "--iters", str(iters), "-o", run]
            opprof("profile", model, *options, SCATTERED=scattered)
            side.append(run)
    result = json.loads(opprof("diff", *sides[0], "--format", "json", "--to", *sides[1]))
    changed: dict[str, str] = {}
    pair: dict[str, object] = {
        "table": table,
        "changed": changed,
        "step_ns": result["step"]["a_ns"],
    }
    for item in result["items"]:
        where = item["name"]["name"]
        if item["verdict"] in ("slower", "faster"):
            changed[where] = item["verdict"]
        if table is not None and where == node_of(table):
            pair["planted_ns"] = [item["a_ns"], item["b_ns"]]
    return pair


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--equal", type=int, default=2)
    parser.add_argument("--recordings", type=int, default=3, help="of each side")
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.py"
        model.write_text(MODEL)
        for table in [*range(TABLES), *[None] * options.equal]:
            pairs.append(compare(model, Path(folder), options.recordings, options.iters, table))
            print(pairs[-1], file=sys.stderr)
    planted = [pair for pair in pairs if pair["table"] is not None]
    named = [
        pair for pair in planted if pair["changed"] == {node_of(int(str(pair["table"]))): "slower"}
    ]
    figures = {
        "recordings_a_side": options.recordings,
        "steps": options.iters,
        "changed_pairs": len(planted),
        "changed_pairs_in_which_the_node_alone_is_named": len(named),
        "equal_pairs": options.equal,
        "equal_pairs_in_which_anything_is_called_changed": sum(
            bool(pair["changed"]) for pair in pairs if pair["table"] is None
        ),
        "pairs": pairs,
    }
    text = json.dumps(figures, indent=1) + "\n"
    print(text, end="")
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()

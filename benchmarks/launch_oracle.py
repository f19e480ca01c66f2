"""Compiles models that are not among the examples, runs the oracle of `opprof launches --prove` on each, and prints how many launches
have exactly the nodes that they compute, and how much of what is `high` is right.

    python benchmarks/launch_oracle.py record FOLDER [--only NAME …] [--device cuda]    # compiles and runs: needs PyTorch
    python benchmarks/launch_oracle.py record FOLDER --models unseen_models             # those of another file beside this one
    python benchmarks/launch_oracle.py judge FOLDER [--json FILE] [--all]               # maps the code anew, and judges the map

`record` keeps of each model what a run showed, without values, so `judge` takes milliseconds a model and needs no compilation: it is what
one runs after a change of the reader. Models of transformers, timm and torchvision (tiny, with random weights) are left out where the package is missing.
"""

import argparse
import copy
import functools
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MODELS = Path(__file__).parent
#: What the reader takes from a debug folder.
_KEPT = {
    "output_code.py",
    "post_grad.json",
    "fx_graph_transformed.py",
    "inductor_provenance_tracking_node_mappings.json",
}


def models_of(file: str) -> Any:
    """The module of this folder that holds the models."""
    sys.path.insert(0, str(MODELS))
    return importlib.import_module(file)


def record_one(file: str, name: str, folder: Path, device: str) -> str:
    """Compiles one model and runs the oracle on each of its compiled graphs; returns what there is to say."""
    import torch

    from opprof.commands.program import CompiledGraphs, module_of
    from opprof.export.graph_json import source_of_exported_program, write_graph_json
    from opprof.export.inductor import watching_inductor
    from opprof.export.model_script import ModelScript
    from opprof.export.stages import ExportFailure, export_program
    from opprof.proof.exported import exported_values
    from opprof.proof.observe import observe_all
    from opprof.run_folder import RunFolder

    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = models_of(file).MODELS[name]()
    for parameter in model.module.parameters():
        # Weights of ones and biases of zeros would make different nodes give equal values.
        if parameter.is_floating_point() and parameter.dtype.itemsize > 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    for path, buffer in model.module.named_buffers():
        if path.endswith(("running_mean", "running_var")):
            buffer += 0.1 * torch.rand_like(buffer)
    module = model.module.to(device).train(model.train)
    args = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), model.args)
    script = ModelScript(Path(f"{name}.py"), name, module, tuple(args))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    exported, values = None, None
    if not model.dynamic and model.exports:
        try:
            exported = export_program(script)
        except (ExportFailure, Exception) as error:
            print(f"{name}: does not export: {str(error).splitlines()[0]}", file=sys.stderr)
    graphs = CompiledGraphs(run)
    program = module
    if exported is not None:
        write_graph_json(run.graph_json, source_of_exported_program(exported, name))
        program = module_of(exported)
        graphs.graph_names[id(exported.graph)] = name
        if not model.train:
            # Buffers and inputs as they are before the program writes to them.
            values = functools.partial(exported_values, *copy.deepcopy((exported, script.args)))
    inputs = _Inputs()
    torch._dynamo.reset()
    patches = {"compile_threads": 1, "cpp.simdlen": 1, **model.config}
    if device == "cpu":
        # Optimized code would take the compiler several times as long, and launches the same.
        patches["aot_inductor.debug_compile"] = True
    with (
        torch._inductor.config.patch(patches),
        torch._dynamo.config.patch(allow_rnn=True),
        watching_inductor(folder / ".inductor", graphs.keep),
        inputs,
    ):
        compiled = torch.compile(program, dynamic=model.dynamic or None)
        with torch.set_grad_enabled(model.train):
            result = compiled(*script.args)
        if model.train:
            tensors = [
                t
                for t in torch.utils._pytree.tree_leaves(result)
                if isinstance(t, torch.Tensor) and t.requires_grad
            ]
            torch.autograd.backward(
                [(t.float() * torch.randn_like(t.float())).sum() for t in tensors]
            )
        seen = []
        for graph in graphs.compiled:
            kept = folder / graph.name
            kept.mkdir()
            for file in graph.folder.iterdir():
                if file.name in _KEPT:
                    shutil.copyfile(file, kept / file.name)
            code = kept / "output_code.py"
            began = time.perf_counter()
            try:
                given = inputs.of(code.read_text())
                torch.save(given, kept / "inputs.pt")
                runs = observe_all(code, kept / "post_grad.json", given, values)
                (kept / "observed.json").write_text(json.dumps([r.to_json() for r in runs]))
                seen.append(f"{graph.name} {time.perf_counter() - began:.1f} s")
            except Exception as error:
                (kept / "failed.txt").write_text(traceback.format_exc())
                seen.append(f"{graph.name}: {type(error).__name__}: {str(error).splitlines()[0]}")
    shutil.rmtree(folder / ".inductor", ignore_errors=True)
    return "; ".join(seen)


class _Inputs:
    """Keeps what compiled graphs are called with, by their code."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Any]] = {}

    def of(self, code: str) -> list[Any] | None:
        """The inputs of a graph's first call, or none where it was not seen."""
        return self.seen.get(code.strip())

    def __enter__(self) -> None:
        from torch._inductor.output_code import CompiledFxGraph

        from opprof.proof.trace import copy_of

        self.original = original = CompiledFxGraph.__call__

        def call(graph: Any, inputs: Any) -> Any:
            source = str(getattr(graph, "source_code", "")).strip()
            if source not in self.seen:
                self.seen[source] = [copy_of(t) for t in inputs]
            return original(graph, inputs)

        CompiledFxGraph.__call__ = call

    def __exit__(self, *_: object) -> None:
        from torch._inductor.output_code import CompiledFxGraph

        CompiledFxGraph.__call__ = self.original


def record(
    folder: Path,
    file: str,
    only: Iterable[str],
    held_out: bool,
    device: str,
    jobs: int,
    limit: int,
) -> None:
    """Records each model in a process of its own: a kernel that crashes takes only its own model along."""
    models = models_of(file)
    names = list(models.HELD_OUT if held_out else models.MODELS)
    names = list(only) or names
    running: dict[str, tuple[subprocess.Popen[str], float]] = {}
    while names or running:
        while names and len(running) < jobs:
            name = names.pop(0)
            command = [sys.executable, __file__, "record-one", file, name, str(folder / name)]
            environment = {**os.environ, "OMP_NUM_THREADS": "2"}
            process = subprocess.Popen(
                [*command, "--device", device],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            running[name] = process, time.monotonic()
        name = _next_that_ended(running, limit)
        process, began = running.pop(name)
        ended = process.poll() is not None
        if not ended:
            process.kill()
        out, err = process.communicate()
        if not ended:
            err += f"\nstopped after {limit} s"
        said = out.strip() or "left out: " + (err.strip().splitlines() or ["it ended"])[-1]
        print(f"{name}: {said} ({time.monotonic() - began:.0f} s)", flush=True)


def _next_that_ended(running: dict[str, tuple[subprocess.Popen[str], float]], limit: int) -> str:
    while True:
        for name, (process, began) in running.items():
            if process.poll() is not None or time.monotonic() - began > limit:
                return name
        time.sleep(0.2)


def map_of(compiled: Path, run: Path) -> dict[str, Any]:
    """The launch map of one compiled graph, by the tools as they are now."""
    tool = Path(os.environ.get("OPPROF_TOOLS_DIR", "")) / "opprof-translate"
    command = [str(tool), "--inductor-launches", str(compiled / "output_code.py")]
    command.append(f"--post-grad-graph={compiled / 'post_grad.json'}")
    if (run / "graph.json").is_file():
        command.append(f"--graph={run / 'graph.json'}")
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(result.stdout)


def judge_all(folder: Path, everything: bool, json_file: Path | None) -> int:
    """Prints the table; returns how many launches are refuted."""
    from opprof.proof.exported import judge_exported
    from opprof.proof.judge import confidence_shares, judge
    from opprof.proof.observe import Observed

    rows, total, shares = [], Counter[str](), {}
    links: dict[str, Counter[str]] = {}
    for observed in sorted(folder.glob("*/*/observed.json")):
        compiled = observed.parent
        runs = [Observed.from_json(run) for run in json.loads(observed.read_text())]
        launch_map = map_of(compiled, compiled.parent)
        verdicts = judge(launch_map, runs)
        counts = Counter(v.verdict.value for v in verdicts)
        counts["launches"] = len(verdicts)
        for verdict in verdicts:
            if verdict.verdict.refutes or (everything and verdict.verdict.value != "exact"):
                print(
                    f"{compiled.parent.name}/{compiled.name} launch {verdict.index} line {verdict.line} {verdict.kernel}: "
                    f"{verdict.verdict.value}; missing {verdict.missing}; extra {verdict.extra}; listed {verdict.listed} {verdict.note}"
                )
        exported = judge_exported(launch_map, runs)
        for wrong in exported.wrong if everything else []:
            print(f"{compiled.parent.name}/{compiled.name} {wrong}")
        counts["from_judged"], counts["from_right"] = exported.judged, exported.right
        for link, found in (
            ("launch → post-grad", confidence_shares(verdicts)),
            ("post-grad → exported", exported.confidence),
        ):
            for confidence, numbers in found.items():
                links.setdefault(f"{link}, {confidence}", Counter()).update(numbers)
        rows.append((compiled.parent.name, compiled.name, counts))
        total.update(counts)
    print()
    print(
        "| model | compiled graph | launches | exact | missing | extra | other | not provable | exported nodes judged | right |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for model, name, counts in [*rows, ("all", str(len(rows)), total)]:
        short = re.sub(r"^model_*", "", name)
        keys = ("launches", "exact", "missing node", "extra node", "other nodes", "not provable")
        cells = [*(counts[key] for key in keys), counts["from_judged"], counts["from_right"]]
        print(f"| {model} | {short} | " + " | ".join(map(str, cells)) + " |")
    print()
    print("| link, confidence | nodes judged | right | share |")
    print("|---|---|---|---|")
    for name, numbers in sorted(links.items()):
        share = 100 * numbers["right"] / max(numbers["judged"], 1)
        shares[name] = share
        print(f"| {name} | {numbers['judged']} | {numbers['right']} | {share:.2f} % |")
    if json_file:
        json_file.write_text(
            json.dumps({"total": total, "links": {k: dict(v) for k, v in links.items()}}, indent=1)
            + "\n"
        )
    return total["missing node"] + total["extra node"] + total["other nodes"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--models", default="oracle_models", help="the file beside this one")
    recording.add_argument("--only", nargs="*", default=[])
    recording.add_argument(
        "--held-out",
        action="store_true",
        help="only the models that no rule of the map or the oracle was written with",
    )
    recording.add_argument("--device", default="cpu")
    recording.add_argument("--jobs", type=int, default=1)
    recording.add_argument("--limit", type=int, default=600, help="seconds a model may take")
    one = commands.add_parser("record-one")
    one.add_argument("file")
    one.add_argument("name")
    one.add_argument("folder", type=Path)
    one.add_argument("--device", default="cpu")
    judging = commands.add_parser("judge")
    judging.add_argument("folder", type=Path)
    judging.add_argument(
        "--all",
        action="store_true",
        help="also name what is not provable, and wrong exported nodes",
    )
    judging.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "record":
        record(
            arguments.folder,
            arguments.models,
            arguments.only,
            arguments.held_out,
            arguments.device,
            arguments.jobs,
            arguments.limit,
        )
        return 0
    if arguments.command == "record-one":
        print(record_one(arguments.file, arguments.name, arguments.folder, arguments.device))
        return 0
    return 1 if judge_all(arguments.folder, arguments.all, arguments.json) else 0


if __name__ == "__main__":
    sys.exit(main())

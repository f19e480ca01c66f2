"""Holds what opprof compiles, the exported program's module, against what the user would compile, the model itself.

    python benchmarks/same_launches.py examples/*.py

For each model: how many launches the generated code of both makes, whether they are the same in the same order, and how many
of the compiled nodes lead back to an exported one.
"""

import argparse
import json
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from opprof.commands.launches import launches_text
from opprof.commands.program import CompiledGraphs, module_of
from opprof.errors import OpprofError
from opprof.export.inductor import watching_inductor
from opprof.export.model_script import ModelScript, load_model_script
from opprof.export.stages import export_program
from opprof.run_folder import RunFolder


def compiled(
    script: ModelScript, module: torch.nn.Module, graphs: CompiledGraphs
) -> list[list[str]]:
    """The kernels that each compiled graph launches, their numbers taken off."""
    torch._dynamo.reset()
    with watching_inductor(graphs.folder.path, graphs.keep):
        script.step_of(torch.compile(module))()
    kernels = []
    for graph in graphs.compiled:
        (launch_map,) = json.loads(launches_text(graph.folder, None, as_json=True))
        launches = launch_map["launches"]
        kernels.append([re.sub(r"_\d+$", "", launch["kernel"]) for launch in launches])
    return kernels


def nodes_with_an_origin(graphs: CompiledGraphs, name: str) -> list[tuple[int, int]]:
    """For each compiled graph, how many nodes lead to the graph of that name, and how many there are."""
    counts = []
    for graph in graphs.compiled:
        nodes: list[dict[str, Any]] = json.loads((graph.folder / "post_grad.json").read_text())[
            "graphs"
        ][0]["nodes"]
        found = [any(e["graph"] == name for e in node.get("from_node", [])) for node in nodes]
        counts.append((sum(found), len(found)))
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scripts", nargs="+", metavar="model.py")
    warnings.simplefilter("ignore")
    print(
        "| model | launches, model | launches, exported | same, in order | nodes with an origin |"
    )
    print("|---|---|---|---|---|")
    for path in parser.parse_args().scripts:
        script = load_model_script(path)
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            own = compiled(script, script.module, CompiledGraphs(RunFolder(Path(first))))
            try:
                program = export_program(script)
            except OpprofError as error:
                print(f"| {script.name} | {error} |")
                continue
            graphs = CompiledGraphs(RunFolder(Path(second)))
            graphs.graph_names[id(program.graph)] = script.name
            exported = compiled(script, module_of(program), graphs)
            origins = nodes_with_an_origin(graphs, script.name)
        print(
            f"| {script.name} | {'+'.join(str(len(k)) for k in own) or 'not compiled'} "
            f"| {'+'.join(str(len(k)) for k in exported)} | {'yes' if own == exported else 'no'} "
            f"| {' and '.join(f'{found} of {count}' for found, count in origins)} |"
        )


if __name__ == "__main__":
    main()

"""Runs emitted backends with every rule and strategy forced on, and holds what they give against PyTorch in float64.

    python benchmarks/forced_rules.py [--tools build/bin] [--sets masks oracle …] [--only NAME …] [--inductor] [--seconds 400] [-o results.jsonl]

Models are those of forced_models.py (masks of all kinds, recurrent layers, experts, writes, half types), of the three files of
launch_oracle.py, and of repeat_models.py (transformers, timm, torchvision, as far as they are there). Of a model that does not export they
are those that Dynamo finds. All that `opprof recommend` has for an H200 is emitted, whatever it is predicted to save, once with each strategy; Inductor is left out, as what is asked is whether
the rewritten graph is right, unless --inductor is given. A CPU runs no CUDA graph, autotune and tf32 change nothing there, and
form-norm is never offered: of these rules nothing is proven here. Each program is called with the inputs as they are, with two others, with
twice the batch, with rows of masks that hide all, and with other weights; models in training by their gradients too.

Types, strides and what shares storage are held against plain torch.compile.

A result is wrong where it is farther from float64, and from what the model gives in its own type, than the strategy's types are. What
float16 and bfloat16 lose is held against the same strategy without rules. Each line has the model, what was offered and applied, what
was declined, the largest error, and what was wrong. A model that has a line in the results already is not run again.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import logging
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).parent))

from opprof.backend.emit import emit
from opprof.backend.rewrites import Rewrites, read_rewrites
from opprof.commands.program import keep_operator_graphs
from opprof.export.fresh_inputs import Integers, fresh
from opprof.export.graph_json import GraphSource, source_of_exported_program, write_graph_json
from opprof.tools import run_tool

#: A model, its arguments by place and by name, and whether it is in training.
Case = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], bool]

#: What is forced on beside the rules, and the error that it may bring.
STRATEGIES: dict[str, tuple[dict[str, Any], float]] = {
    "rules": ({}, 2e-5),
    "freeze, tf32": ({"freeze": True, "tf32": True, "autotune": True}, 2e-5),
    "bfloat16": ({"precision": torch.bfloat16}, 2e-2),
    "float16, freeze, cuda_graph": (
        {"precision": torch.float16, "freeze": True, "cuda_graph": True},
        4e-3,
    ),
    "all regions in bfloat16": ({"regions": (("", "bfloat16"),)}, 2e-2),
    "all regions in float16x3": ({"regions": (("", "float16x3"),)}, 2e-4),
}
#: Where eager mode itself errs, as deep networks of small random weights do, so many times that is let pass.
_SLACK = 10


class TimedOut(BaseException):
    pass


def oracle_cases(file: str) -> dict[str, Callable[[], Case]]:
    def build(make: Callable[[], Any]) -> Case:
        made = make()
        return made.module, made.args, {}, made.train

    models = importlib.import_module(file).MODELS
    return {name: lambda make=make: build(make) for name, make in models.items()}


def library_cases() -> dict[str, Callable[[], Case]]:
    from repeat_models import ARCHITECTURES

    return {name: lambda make=make: (*make(), False) for name, make in ARCHITECTURES.items()}


SETS: dict[str, Callable[[], dict[str, Callable[[], Case]]]] = {
    "forced": lambda: importlib.import_module("forced_models").MODELS,
    "oracle": lambda: oracle_cases("oracle_models"),
    "unseen": lambda: oracle_cases("unseen_models"),
    "further": lambda: oracle_cases("further_models"),
    "libraries": library_cases,
}


def loaded(file: Path, strategy: dict[str, Any], inductor: bool) -> ModuleType:
    """The backend in `file`, with a strategy of its own."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    wanted = {"prologue": True, "training": True, "recurrent": module.STRATEGY.recurrent}
    module.STRATEGY = module.Strategy(**{**wanted, **strategy})
    if module.STRATEGY.regions:
        put_every_class_at(module, module.STRATEGY.regions[0][1])
    if not inductor:
        run = lambda graph, inputs: graph  # noqa: E731
        plain = aot_autograd(fw_compiler=run, bw_compiler=run, inference_compiler=run)
        module.compile_fx = lambda graph, inputs, **options: plain(graph, inputs)
    return module


def put_every_class_at(module: ModuleType, level: str) -> None:
    """Has the backend put all classes of a graph at the level, whatever they are called."""
    cast = module.cast_regions

    def cast_all(graph: torch.fx.GraphModule, inputs: Any, levels: Any) -> torch.fx.GraphModule:
        nodes = module.without_writes(graph, inputs).graph.nodes
        names = {module.class_of(node) for node in nodes} - {None}
        return cast(graph, inputs, dict.fromkeys(names, level))

    module.cast_regions = cast_all


def layout(leaves: list[Tensor], narrow: bool) -> list[tuple[Any, ...]]:
    """Of each what it is besides its numbers: type, shape, strides, and the first that it shares storage with. A slice that is cast has no
    gaps, so that of narrow programs only what is repeated counts.
    """
    firsts: dict[int, int] = {}
    found = []
    for place, leaf in enumerate(leaves):
        plain = leaf.layout is torch.strided
        strides = leaf.stride() if plain else ()
        if narrow:
            strides = tuple(
                stride == 0 and size > 1 for stride, size in zip(strides, leaf.shape, strict=True)
            )
        held = leaf.untyped_storage().data_ptr() if plain and leaf.numel() else 0
        shares = firsts.setdefault(held, place) if held else place
        found.append((str(leaf.dtype), tuple(leaf.shape), strides, shares))
    return found


def laid_out_alike(given: Tensor) -> Tensor:
    """A copy with the strides of the tensor, whose elements may repeat or have gaps."""
    given = given.detach()
    if given.layout is not torch.strided or given.is_contiguous():
        return given.clone()
    held = given.untyped_storage().clone()
    empty = torch.empty(0, dtype=given.dtype, device=given.device)
    return empty.set_(held, given.storage_offset(), given.shape, given.stride())


def called(model: Callable[..., Any], case: tuple[Any, Any], train: bool) -> list[Any]:
    """The results, and in training the gradients of all weights too, of one draw of random numbers."""
    args, kwargs = pytree.tree_map_only(Tensor, laid_out_alike, case)
    torch.manual_seed(7)
    with torch.set_grad_enabled(train):
        result = model(*args, **kwargs)
    leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
    written = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if train:
        owner = getattr(model, "_orig_mod", model)
        weights = [p for p in owner.parameters() if p.requires_grad]
        loss = sum(
            leaf.double().square().mean()
            for leaf in leaves
            if leaf.requires_grad and not leaf.is_complex()
        )
        given = (
            torch.autograd.grad(loss, weights, allow_unused=True)
            if isinstance(loss, Tensor)
            else []
        )
        # As one vector: what cancels, as the bias of keys does, has no direction of its own.
        vectors = [gradient.flatten() for gradient in given if gradient is not None]
        if vectors and bool(loss.isfinite()):
            # Of a loss that is no number there are none worth comparing.
            leaves.append(torch.cat(vectors))
    return [leaf.detach() for leaf in [*leaves, *written]]


def wide(value: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda t: t.double() if t.is_floating_point() else t, value)


def distance(own: Tensor, other: Tensor) -> float:
    """How far `own` is from `other`, as a share of it; infinite where a number is none in one of them only."""
    if own.shape != other.shape:
        return float("inf")
    if own.dtype is torch.bool or not (own.is_floating_point() or own.is_complex()):
        return float((own != other).double().mean()) if own.numel() else 0.0
    to = torch.complex128 if own.is_complex() or other.is_complex() else torch.float64
    own, other = own.to(to), other.to(to)
    if not torch.equal(own.isnan(), other.isnan()) or not torch.equal(own.isinf(), other.isinf()):
        return float("inf")
    finite = other.isfinite()
    own, other = own[finite], other[finite]
    if not other.numel():
        return 0.0
    scale = max(float(other.abs().square().mean().sqrt()), 1e-6)
    return float((own - other).abs().square().mean().sqrt()) / scale


def farthest(own: list[Tensor], other: list[Tensor]) -> float:
    if len(own) != len(other):
        return float("inf")
    return max(map(distance, own, other), default=0.0)


def inputs_of(case: tuple[Any, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The inputs, others, a batch of twice the size, and masks that hide all of some rows."""
    yield "as recorded", case
    for seed in (1, 2):
        yield f"seed {seed}", fresh(case, seed, Integers.SHUFFLED)
    leaves, form = pytree.tree_flatten(case)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.dim()]
    sizes = {leaf.shape[0] for leaf in tensors}
    if len(sizes) == 1:
        twice = [
            torch.cat([leaf, leaf.flip(0)]) if any(leaf is t for t in tensors) else leaf
            for leaf in leaves
        ]
        yield "twice the batch", pytree.tree_unflatten(twice, form)
    for place, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor) or leaf.dim() < 2 or not leaf.numel():
            continue
        if leaf.dtype is torch.bool:
            fills: list[Any] = [False, True]
        elif not leaf.is_floating_point() and not leaf.is_complex():
            fills = [0] if int(leaf.min()) >= 0 and int(leaf.max()) <= 1 else []
        else:
            low = float(leaf.min()) if leaf.is_floating_point() else 0.0
            fills = [low] if low <= -1e3 else []
        for fill in fills:
            for rows in ("first of the batch", "one row"):
                hidden = leaf.clone()
                hidden[(0,) if rows != "one row" else (..., 1 % leaf.shape[-2], slice(None))] = fill
                changed = [*leaves[:place], hidden, *leaves[place + 1 :]]
                yield f"{fill} in {rows}", pytree.tree_unflatten(changed, form)


def dynamo_sources(name: str, case: Case) -> list[GraphSource]:
    """The graphs that Dynamo finds of the model, in operators where they can be traced to them, as `opprof profile` has them."""
    model, args, kwargs, train = case
    sources: list[GraphSource] = []

    torch._dynamo.reset()
    keep = keep_operator_graphs(name, sources)
    called(torch.compile(copy.deepcopy(model), backend=keep), (args, kwargs), train)
    torch._dynamo.reset()
    return sources


def offered(name: str, case: Case, folder: Path, line: dict[str, Any]) -> list[Rewrites]:
    """What the rules have for the exported program, or for each graph of one that does not export."""
    model, args, kwargs, train = case
    try:
        with torch.set_grad_enabled(train):
            program = torch.export.export(
                copy.deepcopy(model), copy.deepcopy(args), copy.deepcopy(kwargs), strict=False
            )
        sources = [source_of_exported_program(program, name)]
    except Exception as error:
        line["not exported"] = f"{type(error).__name__}: {str(error)[:200]}"
        sources = dynamo_sources(name, case)
    found = []
    for number, source in enumerate(sources):
        graph = folder / f"graph.{number}.json"
        write_graph_json(graph, source)
        run_tool("opprof-translate", ["--import-fx-json", graph], output=graph.with_suffix(".mlir"))
        options = f"dir={folder / f'rewrites.{number}'} device=H200 error-budget=0.99"
        if train:
            options += " training"
        run_tool(
            "opprof-opt",
            [graph.with_suffix(".mlir"), f"--recommend-rewrites={options}"],
            output=folder / "same.mlir",
        )
        found.append(read_rewrites(folder / f"rewrites.{number}"))
    return found


def is_refused_by_the_model(model: torch.nn.Module, case: tuple[Any, Any], train: bool) -> bool:
    try:
        called(copy.deepcopy(model), case, train)
    except Exception:
        return True
    return False


def measure(name: str, make: Callable[[], Case], folder: Path, inductor: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    model, args, kwargs, train = make()
    for parameter in model.parameters():
        # Neither factors of one nor biases of zero, which hide what is left out.
        if parameter.is_floating_point():
            parameter.data += 0.1 * torch.randn_like(parameter)
    for path, buffer in model.named_buffers():
        if path.endswith(("running_mean", "running_var")):
            buffer += 0.1 * torch.rand_like(buffer)
    model.train(train)
    line: dict[str, Any] = {"model": name, "train": train}
    try:
        found = offered(name, (model, args, kwargs, train), folder, line)
    except Exception as error:
        line["not compiled"] = f"{type(error).__name__}: {str(error)[:200]}"
        return line
    scripts = [script for rewrites in found for script in rewrites.scripts]
    line["declined"] = [str(decline) for rewrites in found for decline in rewrites.declined]
    line["offered"] = [script.name for script in scripts]
    halves = any(p.dtype in (torch.float16, torch.bfloat16) for p in model.parameters())
    programs = [(title, wanted, limit, True) for title, (wanted, limit) in STRATEGIES.items()]
    line["results"], line["errors"], line["wrong"] = 0, {}, []
    applied: Counter[str] = Counter()
    for title, wanted, limit, _ in programs:
        if train and "precision" in wanted and wanted["precision"] is torch.float16:
            continue
        torch._dynamo.reset()
        # A backend with recurrent layers switches it on for the whole process.
        torch._dynamo.config.allow_rnn = False
        stem = "forced_" + "".join(c if c.isalnum() else "_" for c in f"{name}_{title}")
        files = {
            "with": emit(scripts, folder / f"{stem}.py")[0],
            "without": emit([], folder / f"{stem}_plain.py")[0],
        }
        backends = {key: loaded(file, wanted, inductor) for key, file in files.items()}
        if backends["with"].STRATEGY.recurrent:
            wanted = {**wanted, "recurrent": True}
            backends["without"].STRATEGY = backends["without"].Strategy(
                prologue=True, training=True, **wanted
            )
        own = copy.deepcopy(model)
        program = torch.compile(own, backend=backends["with"].BACKEND_NAME)
        case = (args, kwargs)
        trials = list(inputs_of(case))
        for number, (kind, inputs) in enumerate([*trials, ("other weights", case)]):
            if kind == "other weights":
                with torch.no_grad():
                    for parameter in own.parameters():
                        if parameter.is_floating_point():
                            parameter.mul_(1.25)
            if number and is_refused_by_the_model(own, inputs, train):
                continue
            eager = called(copy.deepcopy(own), inputs, train)
            try:
                exact = called(copy.deepcopy(own).double(), wide(inputs), train)
                if [e.shape for e in exact] != [e.shape for e in eager]:
                    exact = eager
            except Exception:
                exact = eager
            try:
                # Buffers that a call writes are as they were before it.
                before = {key: value.clone() for key, value in own.state_dict().items()}
                actual = called(program, inputs, train)
                own.load_state_dict(before)
            except TimedOut:
                raise
            except Exception as error:
                where = traceback.format_exc().splitlines()
                line["wrong"].append(
                    f"{title}, {kind}: raises {type(error).__name__}: {str(error)[:300]}"
                )
                line.setdefault("trace", where[-12:])
                break
            narrow = bool(limit > 2e-5)
            if layout(actual, narrow) != layout(eager, narrow):
                # What compilation alone lays out otherwise is not the backend's.
                compiled = torch.compile(copy.deepcopy(own), backend="aot_eager")
                plain = called(compiled, inputs, train)
                pairs = zip(layout(actual, narrow), layout(plain, narrow), strict=False)
                differ = [f"{one} for {other}" for one, other in pairs if one != other]
                if differ or len(actual) != len(plain):
                    line["wrong"].append(f"{title}, {kind}: results are otherwise: {differ[:3]}")
            noise = farthest(eager, exact)
            error = min(farthest(actual, exact), farthest(actual, eager))
            line["results"] += 1
            allowed = max(limit, 5e-2 if halves else 0.0, _SLACK * noise)
            if error > allowed:
                # What its types lose is not the rules', nor what this PyTorch compiles wrongly.
                alone = copy.deepcopy(own)
                torch._dynamo.reset()
                without = called(
                    torch.compile(alone, backend=backends["without"].BACKEND_NAME), inputs, train
                )
                torch._dynamo.reset()
                lost = min(farthest(without, exact), farthest(without, eager))
                allowed = max(allowed, 2 * lost)
                line.setdefault("lossy", []).append(
                    f"{title}, {kind}: {error:.1e}, without rules {lost:.1e}"
                )
            line["errors"][title] = max(line["errors"].get(title, 0.0), error)
            if not error <= allowed:
                line["wrong"].append(f"{title}, {kind}: {error:.2e} (eager {noise:.1e})")
        applied.update(backends["with"].applied)
        left = {out for graph in backends["with"].status()["graphs"] for out in graph.left_out}
        refused = {graph.refusal for graph in backends["with"].status()["graphs"] if graph.refusal}
        line.setdefault("left out", []).extend(sorted(left | refused))
    line["applied"] = dict(applied)
    line["left out"] = sorted(set(line["left out"]))
    never = [
        s for s in line["offered"] if s in ("form-attention", "fold-batch-norm", "merge-gemms")
    ]
    line["offered, never applied"] = [s for s in set(never) if not applied.get(s)]
    return line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tools", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--seconds", type=int, default=400, help="of each model")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.tools:
        os.environ["OPPROF_TOOLS_DIR"] = str(options.tools.resolve())
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)

    def expire(*_: Any) -> None:
        raise TimedOut

    signal.signal(signal.SIGALRM, expire)
    lines: list[dict[str, Any]] = []
    output = None
    if options.output:
        if options.output.exists():
            lines = [json.loads(line) for line in options.output.read_text().splitlines()]
        output = options.output.open("a")
    known = {(line["set"], line["model"]) for line in lines}
    for kind in options.sets:
        for name, make in SETS[kind]().items():
            if (options.only and name not in options.only) or (kind, name) in known:
                continue
            signal.alarm(options.seconds)
            try:
                with tempfile.TemporaryDirectory() as folder:
                    line = measure(name, make, Path(folder), options.inductor)
            except (Exception, TimedOut) as error:
                line = {"model": name, "not run": f"{type(error).__name__}: {str(error)[:200]}"}
                line["trace"] = traceback.format_exc().splitlines()[-8:]
            finally:
                signal.alarm(0)
            line["set"] = kind
            lines.append(line)
            print(json.dumps(line), flush=True)
            if output:
                output.write(json.dumps(line) + "\n")
                output.flush()
    ran = [line for line in lines if "results" in line]
    wrong = sum(len(line["wrong"]) for line in ran)
    print(
        f"{len(ran)} models of {len(lines)} ran, {sum(1 for a in ran if a['applied'])} with patterns applied; "
        f"{sum(line['results'] for line in ran)} results compared, {wrong} wrong"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

"""How TorchScript ran a method: which executor and fusers were on, and what the plan of the last call holds. Needs PyTorch."""

from collections import Counter
from typing import Any

import torch

from opprof.units import counted

#: Nodes of a plan that run several operators as one, or leave them to another executor.
_FUSED = (
    "prim::TensorExprGroup",
    "prim::TensorExprDynamicGroup",
    "prim::FusionGroup",
    "prim::CudaFusionGroup",
    "prim::oneDNNFusionGroup",
)
_DIFFERENTIABLE = "prim::DifferentiableGraph"


def executor_facts() -> dict[str, Any]:
    """What is known of the call that this thread made last: asked of PyTorch, and read from the plan that ran."""
    groups, operators = _count(torch._C._last_executed_optimized_graph())
    return {
        "executor": "profiling" if _is_profiling() else "simple",
        "optimized": bool(torch._C._get_graph_executor_optimize()),
        "fusers": {
            "nnc": bool(torch._C._jit_texpr_fuser_enabled()),
            "nnc_on_cpu": bool(torch._C._jit_can_fuse_on_cpu()),
            "nnc_on_gpu": bool(torch._C._jit_can_fuse_on_gpu()),
            "onednn": bool(torch._C._jit_llga_enabled()),
        },
        "fused_groups": sum(groups[kind] for kind in _FUSED),
        "fused_operators": operators,
        "differentiable_groups": groups[_DIFFERENTIABLE],
    }


def executor_text(facts: dict[str, Any]) -> str:
    """The same in a sentence of the report."""
    executor = f"TorchScript's {facts['executor']} executor ran the archive"
    if not facts["optimized"]:
        executor += ", unoptimized"
    if facts["fused_groups"]:
        fused = (
            f"its plan runs {counted(facts['fused_operators'], 'operator')} in {counted(facts['fused_groups'], 'fused group')}, "
            "whose kernels belong to no single node"
        )
    else:
        fused = "its plan has no fused group"
    on = ["oneDNN"] if facts["fusers"]["onednn"] else []
    if facts["fusers"]["nnc"]:
        places = [place for place in ("cpu", "gpu") if facts["fusers"][f"nnc_on_{place}"]]
        on.append(f"NNC on {' and '.join(place.upper() for place in places) or 'no device'}")
    text = f"{executor}: {fused} (fusers that are on: {', '.join(on) or 'none'})"
    if facts["differentiable_groups"]:
        text += f", and {counted(facts['differentiable_groups'], 'differentiable group')}"
    return text


def _is_profiling() -> bool:
    # PyTorch tells by setting only.
    before = bool(torch._C._jit_set_profiling_executor(True))
    torch._C._jit_set_profiling_executor(before)
    return before


def _count(graph: Any) -> tuple[Counter[str], int]:
    """Groups of the plan by kind, those inside blocks and groups too, and the operators inside fused ones."""
    groups: Counter[str] = Counter()
    operators = 0

    def visit(block: Any) -> None:
        nonlocal operators
        for node in block.nodes():
            kind = node.kind()
            if kind in _FUSED or kind == _DIFFERENTIABLE:
                groups[kind] += 1
                inner = node.g("Subgraph")
                if kind in _FUSED:
                    operators += sum(one.kind().startswith("aten::") for one in inner.nodes())
                else:
                    visit(inner)
            for part in node.blocks():
                visit(part)

    visit(graph)
    return groups, operators

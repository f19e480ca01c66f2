"""Empty passes of an emitted backend: one for each finding that no rule answers, with what is known of it. Needs no PyTorch."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from opprof.backend.escaping import escaped
from opprof.tools import run_driver
from opprof.units import microseconds

# The rules whose rewrites a finding asks for, by their names; a finding that is not here has none.
_ANSWERS = {
    "device-busy": {"cuda-graph"},
    "small-kernels": {"cuda-graph"},
    "tensor-cores-idle": {"float16", "bfloat16", "tf32"},
    "bias-copies": {"freeze"},
    "attention-not-fused": {"form-attention"},
}
# What is said of a run, and asks for no edit of its graph.
_NO_EDIT = (
    *("wall-time", "cold-start", "variation", "communication", "host-copies", "cache-lookups"),
    *("recompilation", "garbage-collection", "checkpoint-writing", "data-loading-waits"),
    *("host-code", "memory-growth", "gradient-loop", "optimizer-loop", "gradient-sets"),
    *("parameter-loop", "operator-loop", "host-wait", "pageable-copies", "collective-wait"),
)
# Nodes that are named; the report has all of them.
_MOST_NODES = 12


def unanswered(run: Path, rules: Iterable[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The findings of a run folder that none of the rewrites named `rules` answers, the most severe first; and its nodes."""
    report = json.loads(run_driver("report", run, "--json"))
    offered = set(rules)
    findings = [
        finding
        for finding in report["findings"]
        if finding.get("severity_ns_per_step")
        and finding["id"] not in _NO_EDIT
        and not _ANSWERS.get(finding["id"], set()) & offered
    ]
    findings.sort(key=lambda finding: -finding["severity_ns_per_step"])
    return findings, {node["name"]: node for node in report["nodes"]}


def skeleton(findings: list[dict[str, Any]], nodes: dict[str, Any]) -> str:
    """The passes' definitions, and the table of them, as an emitted file takes them."""
    parts, names = [], []
    for finding in findings:
        name = "answer_" + re.sub(r"[^0-9A-Za-z]", "_", finding["id"])
        number = 2
        while name in names:
            name, number = f"{name}_{number}", number + 1
        names.append(name)
        parts.append(_pass(name, finding, nodes))
    table = "".join(f"    ({name.removeprefix('answer_')!r}, {name}),\n" for name in names)
    return "\n\n".join([*parts, f"PASSES = (\n{table})\n" if table else "PASSES = ()\n"])


def _pass(name: str, finding: dict[str, Any], nodes: dict[str, Any]) -> str:
    named = [_node(node, nodes) for node in finding["nodes"][:_MOST_NODES]]
    if len(finding["nodes"]) > _MOST_NODES:
        named.append(f"and {len(finding['nodes']) - _MOST_NODES} more")
    evidence = [
        f"{escaped(str(key))}: {escaped(json.dumps(value)[:160])}"
        for key, value in finding["evidence"].items()
    ]
    severity = microseconds(finding["severity_ns_per_step"])
    lines = [
        f'    """Empty: what {escaped(finding["id"])} asks for, {severity} µs a step.',
        "",
        f"    {escaped(finding['text'])}",
        "",
        "    Nodes, as the exported graph names them:",
        *(f"      {line}" for line in named or ["none in particular"]),
        "    Evidence:",
        *(f"      {line}" for line in evidence),
        "",
        "    `graph` holds ATen operators before autograd, the rewrites above applied; a node's tensor is `node.meta['val']`. Find the",
        "    nodes by `node.target`, their operands and shapes: names differ from those above. Put what takes their place in with",
        "    `graph.graph.inserting_before(node)` and `node.replace_all_uses_with(new)`, and return how many places were changed.",
        "    What is unused then goes, and new values are propagated; `opprof validate` compares the result with PyTorch's.",
        "    With `STRATEGY = Strategy(prologue=True)` above, what new nodes compute of weights alone is computed once, not in every call.",
        '    """',
    ]
    body = "    # The edit goes here.\n    return 0\n"
    return f"def {name}(graph: fx.GraphModule) -> int:\n" + "\n".join(lines) + "\n" + body


def _node(node: Any, nodes: dict[str, Any]) -> str:
    name = node if isinstance(node, str) else f"{node.get('graph', '')}:{node.get('name', '')}"
    known = nodes.get(name, {})
    about = ", ".join(escaped(known[key]) for key in ("module", "source") if known.get(key))
    return escaped(name) + (f" ({about})" if about else "")

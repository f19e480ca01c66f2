"""Prints launches.json a line a launch, for tests: kernel, kind, category, then nodes with a sign for what is said of them.

`*` recomputed, `~` continued, `^` prepares, `?` without dataflow. Names after a bar are listed only.
"""

import json
import sys
from typing import Any


def node_text(node: dict[str, Any]) -> str:
    text = node["name"]
    if "graph" in node:
        text = f"{node['graph']}/{text}"
    for key, sign in (("recomputed", "*"), ("continued", "~"), ("prepares", "^")):
        text += sign if node.get(key) else ""
    return text if "dataflow" in node["evidence"] else text + "?"


def main() -> None:
    maps = json.load(sys.stdin)
    for graph in maps if isinstance(maps, list) else [maps]:
        print(f"{graph['graph']}: {graph['statements']['kept_as_text']} kept as text")
        for launch in graph["launches"]:
            flags = "".join(f" {key}" for key in ("conditional", "in_loop") if launch.get(key))
            print(
                f"{launch['index']} {launch.get('function')}:{launch['line']} {launch['kernel']}"
                f" {launch['kind']}/{launch['category']}{flags}"
                f" [{' '.join(map(node_text, launch['nodes']))}]"
                f" | {' '.join(launch.get('listed_only', []))}"
            )
        for node in graph["not_launched"]:
            print(f"not launched: {node['name']}: {node['reason']}")


main()

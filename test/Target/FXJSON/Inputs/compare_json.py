"""Exits with 1, naming what differs, unless two graph JSON files say the same; the tables may be in another order."""

import json
import sys
from typing import Any


def resolve(document: dict[str, Any]) -> dict[str, Any]:
    """The document without its tables: what nodes and inputs refer to stands where they refer to it."""

    def type_of(index: int) -> Any:
        entry = document["types"][index]
        if isinstance(entry, str):
            return entry
        ((kind, content),) = entry.items()
        if kind in ("tuple", "list"):
            return {kind: [type_of(element) for element in content]}
        if kind == "optional":
            return {kind: type_of(content)}
        return entry

    for graph in document["graphs"]:
        for entry in graph["inputs"] + graph["nodes"]:
            if "type" in entry:
                entry["type"] = type_of(entry["type"])
            for key, table in (("stack", "stacks"), ("modules", "modules")):
                if key in entry:
                    entry[key] = document[table][entry[key]]
    return {"producer": document.get("producer"), "graphs": document["graphs"]}


def differences(first: Any, second: Any, place: str) -> list[str]:
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return [d for key in first for d in differences(first[key], second[key], f"{place}.{key}")]
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = enumerate(zip(first, second, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{place}[{i}]")]
    # 1 == 1.0 == True, and 0.0 == -0.0, but their texts differ.
    return [] if repr(first) == repr(second) else [f"{place}: {first!r} is not {second!r}"]


def main() -> int:
    documents = []
    for path in sys.argv[1:3]:
        with open(path, encoding="utf-8") as file:
            documents.append(resolve(json.load(file)))
    found = differences(documents[0], documents[1], "document")
    print("\n".join(found[:20]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

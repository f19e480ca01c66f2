"""Holds JSON files, and the ```json examples of Markdown pages, against a JSON schema.

Usage: check_schema.py SCHEMA.json FILE…

Understands the keywords that the schemas of docs/formats use, and stops at any other: a keyword that is ignored checks nothing.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
KNOWN = {
    *("type", "required", "properties", "additionalProperties", "items", "enum", "const"),
    *("minimum", "maximum", "$ref", "$defs", "$schema", "title", "description"),
}


def _is_of_kind(value: Any, kind: str) -> bool:
    # Python counts True as a number.
    return isinstance(value, TYPES[kind]) and not (
        kind in ("integer", "number") and isinstance(value, bool)
    )


class Checker:
    """Checks values against one schema document."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.root = schema
        self.errors: list[str] = []

    def check(self, value: Any, schema: dict[str, Any], place: str) -> None:
        unknown = set(schema) - KNOWN
        if unknown:
            raise SystemExit(f"the schema uses {sorted(unknown)}, which this script does not know")
        if "$ref" in schema:
            target: Any = self.root
            for part in schema["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            self.check(value, target, place)
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(_is_of_kind(value, kind) for kind in kinds):
            self.errors.append(f"{place}: expected {' or '.join(kinds)}, found {value!r:.60}")
            return
        if "const" in schema and value != schema["const"]:
            self.errors.append(f"{place}: expected {schema['const']!r}, found {value!r:.60}")
        if "enum" in schema and value not in schema["enum"]:
            self.errors.append(f"{place}: {value!r:.60} is none of {schema['enum']}")
        if "minimum" in schema and value is not None and value < schema["minimum"]:
            self.errors.append(f"{place}: {value} is below {schema['minimum']}")
        if "maximum" in schema and value > schema["maximum"]:
            self.errors.append(f"{place}: {value} is above {schema['maximum']}")
        if isinstance(value, dict):
            self.check_object(value, schema, place)
        if isinstance(value, list) and "items" in schema:
            for index, item in enumerate(value):
                self.check(item, schema["items"], f"{place}[{index}]")

    def check_object(self, value: dict[str, Any], schema: dict[str, Any], place: str) -> None:
        properties = schema.get("properties", {})
        for key in schema.get("required", []):
            if key not in value:
                self.errors.append(f"{place}: the key {key!r} is missing")
        for key, item in value.items():
            if key in properties:
                self.check(item, properties[key], f"{place}.{key}")
            elif schema.get("additionalProperties") is False:
                self.errors.append(f"{place}: the key {key!r} is not in the schema")


def documents(path: Path) -> list[tuple[str, Any]]:
    text = path.read_text()
    if path.suffix != ".md":
        return [(str(path), json.loads(text))]
    blocks = re.finditer(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(f"{path}:{text.count(chr(10), 0, b.start()) + 1}", json.loads(b[1])) for b in blocks]


def main() -> int:
    schema = json.loads(Path(sys.argv[1]).read_text())
    checked = failed = 0
    for name in sys.argv[2:]:
        for place, value in documents(Path(name)):
            checker = Checker(schema)
            checker.check(value, schema, "$")
            checked += 1
            failed += bool(checker.errors)
            for error in checker.errors[:10]:
                print(f"{place}: {error}")
    print(f"{checked} documents, {failed} failed")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())

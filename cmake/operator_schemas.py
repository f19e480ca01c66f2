"""PyTorch's operator schemas, which opprof keeps in its sources, so that neither a build nor a reader needs PyTorch.

    python operator_schemas.py record          writes the schemas of the installed PyTorch into operator_schemas.jsonl, beside
                                               those of the other versions
    python operator_schemas.py check           says where the installed PyTorch's differ from what is kept of its version
    python operator_schemas.py table OUTPUT    writes the C++ table that opprof is built with; needs no PyTorch

The first line of operator_schemas.jsonl names the versions. Each other line is a schema: the operator, the versions that have it so
(empty for all), its tags, its arguments and its returns as [name, type, flags, alias set, default], cut after the last that isn't
empty; the flag k stands for keyword-only, w for written.
"""

import json
import sys
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_suffix(".jsonl")
TAGS = ("pointwise", "nondeterministic_seeded", "reduction")

#: Tags, arguments, returns.
Schema = tuple[list[str], list[list[str]], list[list[str]]]


def alias_letter(alias_info: Any, *, of_return: bool = False) -> str:
    """The schema's alias set as one letter; empty for a fresh value."""
    if alias_info is None:
        return ""
    names = set(alias_info.before_set)
    if of_return:
        names |= set(alias_info.after_set)
    return "*" if "*" in names or not names else sorted(names)[0][0]


MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
# Where schemas give a dtype by number.
DTYPES = {3: "int32", 4: "int64", 6: "float32", 7: "float64", 11: "bool"}


def default_text(value: Any, kind: str) -> str:
    """A default value as opprof::fx::getDefaultValue reads it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(default_text(element, "") for element in value) + "]"
    if "ScalarType" in kind:
        return "dtype:" + DTYPES[value]
    if "MemoryFormat" in kind:
        return "memory_format:" + MEMORY_FORMATS[value]
    return repr(value)


def describe_argument(argument: Any, *, of_return: bool = False) -> list[str]:
    info = argument.alias_info
    fields = [
        argument.name,
        str(argument.type),
        ("k" if argument.kwarg_only else "") + ("w" if info is not None and info.is_write else ""),
        alias_letter(info, of_return=of_return),
        default_text(argument.default_value, str(argument.real_type))
        if argument.has_default_value()
        else "",
    ]
    while not fields[-1]:
        fields.pop()
    return fields


def operator_tags(torch: Any, namespace: str, name: str, overload: str) -> list[str]:
    try:
        operator = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    except (AttributeError, RuntimeError):
        return []
    tags = {str(tag).rsplit(".", 1)[-1] for tag in operator.tags}
    return [tag for tag in TAGS if tag in tags]


def installed() -> tuple[str, dict[str, Schema]]:
    """The installed PyTorch's version, and its schemas by operator."""
    import torch

    schemas: dict[str, Schema] = {}
    for schema in torch._C._jit_get_all_schemas():
        if "::" not in schema.name:
            continue
        namespace, name = schema.name.split("::", 1)
        overload = schema.overload_name or "default"
        key = f"{namespace}.{name}.{overload}"
        # TorchScript's own primitives take any arguments: nothing is said of aliasing.
        if key in schemas or "..." in str(schema).split("=")[0]:
            continue
        schemas[key] = (
            operator_tags(torch, namespace, name, overload),
            [describe_argument(argument) for argument in schema.arguments],
            [describe_argument(result, of_return=True) for result in schema.returns],
        )
    return ".".join(torch.__version__.split(".")[:2]), schemas


def newest_first(version: str) -> tuple[int, ...]:
    return tuple(-int(part) for part in version.split("."))


def read() -> dict[str, dict[str, Schema]]:
    """The kept schemas by version, newest first."""
    if not KEPT.exists():
        return {}
    header, *lines = KEPT.read_text().splitlines()
    versions = json.loads(header)["torch"]
    kept: dict[str, dict[str, Schema]] = {version: {} for version in versions}
    for line in lines:
        operator, of, tags, arguments, returns = json.loads(line)
        for version in of or versions:
            kept[version][operator] = (tags, arguments, returns)
    return kept


def write(kept: dict[str, dict[str, Schema]]) -> None:
    versions = sorted(kept, key=newest_first)
    lines = [json.dumps({"torch": versions})]
    for operator in sorted({operator for schemas in kept.values() for operator in schemas}):
        same: dict[str, list[str]] = {}
        for version in versions:
            if operator in kept[version]:
                same.setdefault(json.dumps(kept[version][operator]), []).append(version)
        for schema, of in same.items():
            row = [operator, [] if of == versions else of, *json.loads(schema)]
            lines.append(json.dumps(row, separators=(",", ":")))
    KEPT.write_text("\n".join(lines) + "\n")


def record() -> None:
    version, schemas = installed()
    write({**read(), version: schemas})


def differences() -> list[str]:
    """What the installed PyTorch has that is not kept of its version, and the other way round."""
    version, schemas = installed()
    kept = read().get(version)
    if kept is None:
        return [f"nothing is kept of PyTorch {version}"]
    # What an extension registered is no part of PyTorch.
    missing = [operator for operator in kept if operator not in schemas]
    different = [
        operator
        for operator, schema in schemas.items()
        if operator in kept and json.dumps(kept[operator]) != json.dumps(schema)
    ]
    new = [name for name in schemas if name not in kept and name.startswith(("aten.", "prims."))]
    return [f"{operator} differs" for operator in sorted([*missing, *different, *new])]


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def argument_row(fields: list[str]) -> str:
    name, kind, flags, alias, default = [*fields, "", "", "", "", ""][:5]
    columns = [
        quote(name),
        quote(kind),
        "true" if "k" in flags else "false",
        "true" if "w" in flags else "false",
        f"'{alias}'" if alias else "0",
        quote(default),
    ]
    return "{" + ", ".join(columns) + "}"


def write_table(output: Path) -> None:
    """The newest schema of each operator: graphs of older versions have what has gone since, and files don't say a version."""
    kept = read()
    newest: dict[str, Schema] = {}
    for schemas in kept.values():
        for operator, schema in schemas.items():
            newest.setdefault(operator, schema)
    rows: list[str] = []
    operators: list[str] = []
    for operator in sorted(newest):
        tags, arguments, returns = newest[operator]
        first, middle = len(rows), len(rows) + len(arguments)
        rows.extend(argument_row(fields) for fields in [*arguments, *returns])
        flags = ", ".join("true" if tag in tags else "false" for tag in TAGS)
        operators.append(
            f"{{{quote(operator)}, arguments({first}, {len(arguments)}), "
            f"arguments({middle}, {len(returns)}), {flags}}}"
        )
    text = "".join(
        [
            f"// Made from cmake/{KEPT.name} by cmake/{Path(__file__).name}.\n",
            "static constexpr SchemaArgument kArguments[] = {\n",
            ",\n".join(rows),
            "};\n",
            "static constexpr llvm::ArrayRef<SchemaArgument> arguments(size_t first, size_t count) {\n"
            "  return {kArguments + first, count};\n}\n",
            "static constexpr OperatorSchema kSchemas[] = {\n",
            ",\n".join(operators),
            "};\n",
        ]
    )
    temporary = output.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(output)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["record"]:
            record()
        case ["check"]:
            found = differences()
            print("\n".join(found))
            return 1 if found else 0
        case ["table", output]:
            write_table(Path(output))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

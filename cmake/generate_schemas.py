"""Writes the C++ table of PyTorch's operator schemas that opprof is built with.

Usage: python generate_schemas.py OUTPUT.inc
"""

import sys
from pathlib import Path

import torch


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def alias_letter(alias_info) -> str:
    """The schema's alias set as one C++ character literal; 0 for a fresh value."""
    if alias_info is None:
        return "0"
    names = alias_info.before_set
    if "*" in names or not names:
        return "'*'"
    return f"'{sorted(names)[0][0]}'"


def alias_letter_of_return(alias_info) -> str:
    if alias_info is None:
        return "0"
    names = set(alias_info.before_set) | set(alias_info.after_set)
    if "*" in names or not names:
        return "'*'"
    return f"'{sorted(names)[0][0]}'"


MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
# Where schemas give a dtype by number.
DTYPES = {3: "int32", 4: "int64", 6: "float32", 7: "float64", 11: "bool"}


def default_text(value, kind: str) -> str:
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


def argument_row(argument, letter: str) -> str:
    info = argument.alias_info
    fields = [
        quote(argument.name),
        quote(str(argument.type)),
        "true" if argument.kwarg_only else "false",
        "true" if info is not None and info.is_write else "false",
        letter,
        quote(default_text(argument.default_value, str(argument.real_type)))
        if argument.has_default_value()
        else '""',
    ]
    return "{" + ", ".join(fields) + "}"


def operator_tags(namespace: str, name: str, overload: str) -> set[str]:
    try:
        operator = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        return {str(tag).rsplit(".", 1)[-1] for tag in operator.tags}
    except (AttributeError, RuntimeError):
        return set()


def main() -> None:
    output = Path(sys.argv[1])
    rows: dict[str, tuple[str, list[str], list[str]]] = {}
    arguments: list[str] = []
    for schema in torch._C._jit_get_all_schemas():
        if "::" not in schema.name:
            continue
        namespace, name = schema.name.split("::", 1)
        overload = schema.overload_name or "default"
        key = f"{namespace}.{name}.{overload}"
        # TorchScript's own primitives take any arguments: nothing is said of aliasing.
        if key in rows or "..." in str(schema).split("=")[0]:
            continue
        tags = operator_tags(namespace, name, overload)
        rows[key] = (
            ", ".join(
                "true" if tag in tags else "false"
                for tag in ("pointwise", "nondeterministic_seeded", "reduction")
            ),
            [argument_row(a, alias_letter(a.alias_info)) for a in schema.arguments],
            [argument_row(a, alias_letter_of_return(a.alias_info)) for a in schema.returns],
        )
    operators: list[str] = []
    for key in sorted(rows):
        tags_text, inputs, returns = rows[key]
        first, middle = len(arguments), len(arguments) + len(inputs)
        arguments.extend(inputs + returns)
        operators.append(
            f"{{{quote(key)}, arguments({first}, {len(inputs)}), "
            f"arguments({middle}, {len(returns)}), {tags_text}}}"
        )
    text = "".join(
        [
            f"// Generated from PyTorch {torch.__version__} by cmake/generate_schemas.py.\n",
            "static constexpr SchemaArgument kArguments[] = {\n",
            ",\n".join(arguments),
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


if __name__ == "__main__":
    main()

"""`opprof extract`: a module of a recorded program as a script of its own. Needs no PyTorch."""

import json
import math
import re
from pathlib import Path
from typing import Any

from opprof.backend.escaping import escaped
from opprof.errors import OpprofError
from opprof.export import step_region
from opprof.export.step_region import Region, Step, cut, read_step, reading
from opprof.files import replacing, scratch_folder
from opprof.progress import progress
from opprof.tools import run_tool

#: What stands above this line in the template is there for those who read it.
_MARK = "# What follows is written.\n"

#: A tensor with more elements, or more dimensions, is none that a program had.
_MOST_ELEMENTS, _MOST_DIMENSIONS = 1 << 48, 64

_DTYPES = re.compile(
    r"bool|u?int(8|16|32|64)|bfloat16|float(16|32|64)|complex(32|64|128)|float8_e\d+m\d+[a-z]{0,5}"
)
_FORMATS = (
    *("strided", "sparse_coo", "contiguous_format", "preserve_format"),
    *("channels_last", "channels_last_3d"),
)

_FACTS = frozenset(
    [
        "values",
        "min",
        "max",
        "zeros",
        "start",
        "step",
        "sorted",
        "mean",
        "std",
        "highest",
        "nan",
        "inf",
        "-inf",
    ]
)


def extract_module(
    path: Path, module: str, output: Path, number: int = 0, *, training: bool = False
) -> Path:
    """Writes the script of a call of a module of the step in a run folder, and returns where; with `training` it runs backward too."""
    if output.suffix != ".py":
        raise OpprofError(f"{output}: the ending has to be .py, as it is a Python script")
    with reading(path):
        step = read_step(path)
        region = cut(step, module, number, training=training)
        text = _script(step, region)
    with replacing(output) as file:
        file.write(text)
    for note in region.notes:
        progress(note)
    progress(
        f"wrote {output}: {region.operators} operators of {region.module}, "
        f"{len(region.weights)} weights and {len(region.tensors)} inputs by shape and statistics"
    )
    return output


def _script(step: Step, region: Region) -> str:
    with scratch_folder() as folder:
        graph = folder / "graph.json"
        graph.write_text(json.dumps(region.document), encoding="utf-8")
        imported = run_tool("opprof-translate", ["--import-fx-json", graph], quiet=True)
        program = run_tool("opprof-translate", ["--emit-python"], input=imported).decode()
    return (
        f"{_with_title(program, step, region)}\n\n{_facts(region)}\n\n{_template(region.training)}"
    )


def _with_title(program: str, step: Step, region: Region) -> str:
    """The program, whose docstring is the script's."""
    head, end, rest = program.partition('"""\n\n')
    imports = "\n\nimport torch\n"
    if not head.startswith('"""') or not end or imports not in rest:
        raise OpprofError("opprof-translate: the program begins otherwise than this opprof knows")
    kind = "step" if step.facts.get("kind") == "step" else "call"
    lines = [
        f'"""{escaped(region.module)} ({escaped(region.kind)}), as it ran in {kind} {_number(step.facts.get("number", 0))} '
        f"of the program that {escaped(str(step.path))} was recorded of.",
        "",
        "Weights and inputs have the shapes of the recorded ones, and numbers like theirs; load_state_dict takes the module's own.",
        "Operators ran as they stand here, also where arguments that are no tensors chose among them.",
        *(escaped(note) for note in region.notes),
        "",
        "    opprof profile THIS.py -o run/",
        "    opprof optimize THIS.py -o out/",
    ]
    return (
        "\n".join(lines)
        + '\n"""\n\n'
        + rest.replace(imports, f"\nfrom typing import Any{imports}", 1)
    )


def _facts(region: Region) -> str:
    """The tables of the weights, and the function that makes the arguments."""
    lines = [
        "# What each weight is: kind, whether it is saved, shape, strides, dtype, device, whether it requires a gradient, and what its",
        "# numbers were like.",
        "WEIGHTS = {",
    ]
    for name, weight in region.weights.items():
        trained = bool(weight.type.get("requires_grad")) and weight.kind == "parameter"
        tensor = _tensor(weight.type)
        statistics = _statistics(weight.statistics)
        lines.append(
            f"    {name!r}: ({_kind(weight.kind)!r}, {weight.persistent is not False}, {tensor}, {trained}, {statistics}),"
        )
    lines += [
        "}",
        "",
        "# Arguments that are no tensors, by their places among all.",
        "CONSTANTS = {",
    ]
    places = _Arguments(region)
    args = [places.text(value) for value in region.args]
    kwargs = [places.text(value) for value in region.kwargs.values()]
    lines += [f"    {place}: {text}," for place, text in places.constants.items()]
    keywords = "".join(f"{name!r}, " for name in region.kwargs)
    lines += [
        "}",
        f"POSITIONAL, KEYWORDS = {len(args)}, ({keywords})",
        f"TRAINING = {region.training}",
        "",
        "",
        "def _arguments(generator):",
    ]
    lines += [f"    {line}" for line in places.lines]
    lines += [f"    return ({''.join(f'{text}, ' for text in [*args, *kwargs])})"]
    return "\n".join(lines) + "\n"


class _Arguments:
    """Arguments of graph JSON as Python's text."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.names: dict[str, str] = {}
        #: Statements that make tensors.
        self.lines: list[str] = []
        self.constants: dict[int, str] = {}
        self.count = 0

    def text(self, value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(self.text, value))}]"
        if isinstance(value, dict) and set(value) == {"tuple"}:
            return f"({''.join(f'{self.text(part)}, ' for part in value['tuple'])})"
        if isinstance(value, dict) and set(value) == {"dict"}:
            pairs = [f"{_key(key)}: {self.text(part)}" for key, part in value["dict"]]
            return f"{{{', '.join(pairs)}}}"
        place, self.count = self.count, self.count + 1
        if isinstance(value, dict) and set(value) == {"node"}:
            return self._tensor(str(value["node"]))
        text, is_constant = _constant(value)
        if is_constant:
            self.constants[place] = text
        else:
            self.region.notes.append(
                f"argument {place} is a thing of the program's that is not known here: None stands for it"
            )
        return text

    def _tensor(self, name: str) -> str:
        if name not in self.names:
            self.names[name] = own = f"tensor_{len(self.names)}"
            tensor, statistics = self.region.tensors[name]
            self.lines.append(
                f"{own} = _like(generator, {_tensor(tensor)}, {_statistics(statistics)})"
            )
        return self.names[name]


def _constant(value: Any) -> tuple[str, bool]:
    """Python's text of an argument that is no tensor, and whether it is one that can be written."""
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value), True
    if isinstance(value, float):
        return _number(value), True
    if isinstance(value, dict) and len(value) == 1:
        key, inner = next(iter(value.items()))
        if key == "float":
            return f'float("{float(inner)}")', True
        if key == "dtype":
            return _dtype(inner), True
        if key in ("layout", "memory_format") and inner in _FORMATS:
            return f"torch.{inner}", True
        if key == "device":
            return f"torch.device({_device(inner)!r})", True
    return "None", False


def _key(key: Any) -> str:
    if isinstance(key, (str, int)):
        return repr(key)
    raise OpprofError(f"a dict among the arguments has the key {key!r}, which is not kept")


def _kind(kind: str) -> str:
    return "parameter" if kind == "parameter" else "buffer"


def _device(text: Any) -> str:
    if not isinstance(text, str) or not re.fullmatch(r"[a-z]{1,20}(:\d{1,4})?", text):
        raise OpprofError(f"{text!r} is no device")
    return text


def _dtype(name: Any) -> str:
    if not isinstance(name, str) or not _DTYPES.fullmatch(name):
        raise OpprofError(f"{name!r} is no dtype that tensors can be made of")
    return f"torch.{name}"


def _number(value: Any) -> str:
    """A number, or the name of one that has none, as Python's text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise OpprofError(f"{value!r} is no number")
    if isinstance(value, str) or (isinstance(value, float) and not math.isfinite(value)):
        return f'float("{float(value)}")'
    return repr(value)


def _sizes(values: Any, most: int) -> str:
    if (
        not isinstance(values, list)
        or len(values) > _MOST_DIMENSIONS
        or not all(isinstance(v, int) and 0 <= v <= most for v in values)
    ):
        raise OpprofError(f"{values!r} are no sizes of a tensor")
    return f"({''.join(f'{value}, ' for value in values)})"


def _tensor(entry: dict[str, Any]) -> str:
    """Shape, strides, dtype and device."""
    shape, stride = entry["shape"], entry["stride"]
    texts = [_sizes(shape, _MOST_ELEMENTS), _sizes(stride, _MOST_ELEMENTS)]
    if len(shape) != len(stride) or math.prod(shape) > _MOST_ELEMENTS:
        raise OpprofError(f"{shape!r} with the strides {stride!r} is no tensor")
    return f"{texts[0]}, {texts[1]}, {_dtype(entry['dtype'])}, {_device(entry['device'])!r}"


def _statistics(facts: Any) -> str:
    if not isinstance(facts, dict):
        raise OpprofError("the statistics of a tensor are no object")
    parts = []
    for name, value in facts.items():
        if name not in _FACTS:
            continue
        if name == "values":
            text = f"[{', '.join(_value(v) for v in value)}]"
        else:
            text = _value(value)
        parts.append(f"{name!r}: {text}")
    return f"{{{', '.join(parts)}}}"


def _value(value: Any) -> str:
    return repr(value) if isinstance(value, bool) else _number(value)


def _template(training: bool) -> str:
    """The rest of the script, which is the same for all."""
    # Read, not imported, which would need PyTorch.
    text = Path(step_region.__file__).with_name("region_template.py").read_text(encoding="utf-8")
    _, forward, backward = text.split(_MARK)
    return forward.strip("\n") + "\n" + (backward if training else "")

"""The `opprof` command: reads the command line, calls the module that does the work, and shows errors as people need them.

Nothing is imported here that a subcommand does not need: `opprof report` starts without PyTorch.
"""

import argparse
import os
import re
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias

from opprof.bytecode import keep_bytecode
from opprof.choices import (
    COUNTER_MODES,
    DEFAULT_ERROR_BUDGET,
    DIFFERENCE_FORMS,
    ITEM_KINDS,
    STAGES,
)
from opprof.errors import OpprofError, ProgramError
from opprof.files import check_folder, check_python, check_script, locked
from opprof.processes import start_server
from opprof.suffixes import CAPTURE, GRAPH_JSON, GRAPHS, MLIR_BYTECODE, MLIR_TEXT, PT, SAFETENSORS
from opprof.terminal import prepare_streams, printable, program_output_on_stderr
from opprof.torchscript import TorchScriptOptions, check_model, is_torchscript, readable_graph


class _Parser(argparse.ArgumentParser):
    """argparse, but an error ends with the command that explains it instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(
            2, f"{self.prog}: error: {message}\n  `{self.prog} --help` explains the options\n"
        )


class _Version(argparse.Action):
    """Looks for what is installed only where it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from opprof.commands.versions import describe_versions

        print(describe_versions())
        parser.exit()


#: What adds a subcommand; argparse has no public name for it, and cannot be asked for its type at run time.
_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


def _path(text: str) -> Path:
    """A file or folder. Nothing at all would be the current one, which is not what an unset variable of a shell means."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return Path(text)


def _say_written(file: object) -> None:
    print(printable(f"wrote {file}"), file=sys.stderr)


def _export(options: argparse.Namespace) -> None:
    of_archive = TorchScriptOptions(options.method, options.input, options.freeze, options.sandbox)
    check_script(Path(options.script))
    if is_torchscript(options.script):
        from opprof.commands.export_archive import export_archive

        if options.stage != "export":
            raise OpprofError(
                "--stage is for model scripts; an archive of TorchScript has one graph"
            )
        written = export_archive(
            Path(options.script), Path(options.output), of_archive, options.weights
        )
    else:
        if of_archive != TorchScriptOptions(inputs=[]):
            raise OpprofError(
                "--method, --input, --freeze and --sandbox are for TorchScript archives; "
                "a model script says itself what its model is called with"
            )
        check_python(Path(options.script))
        from opprof.commands.export import export_script

        with program_output_on_stderr():
            written = export_script(options.script, options.output, options.stage, options.weights)
    for file in written:
        _say_written(file)


def _add_export(commands: _Commands) -> None:
    parser = commands.add_parser(
        "export",
        help="write a model's graph as MLIR or JSON",
        description="Exports the model of a script and writes its graph. The script is run. "
        "Or writes the graph of a TorchScript archive.",
    )
    parser.add_argument(
        "script",
        metavar="MODEL",
        help="a script that defines get_model_and_input() -> (module, input), or an archive of torch.jit.save",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help=f"what to write: {MLIR_TEXT} (text), {MLIR_BYTECODE} (bytecode) or {GRAPH_JSON} (graph JSON)",
    )
    parser.add_argument(
        "--stage",
        choices=STAGES,
        default="export",
        help="torch.export's graph (default), or one of what torch.compile makes of the model",
    )
    parser.add_argument(
        "--weights",
        type=_path,
        metavar="FILE",
        help=f"also write the parameters, buffers and constants, as {SAFETENSORS} or {PT}",
    )
    archive = _add_archive_options(parser)
    archive.add_argument(
        "--freeze",
        action="store_true",
        help="make attributes that the method does not change constants",
    )
    archive.add_argument(
        "--sandbox",
        action="store_true",
        help="read it without network, writing or new processes",
    )
    parser.set_defaults(run=_export, loads_pytorch=True)


def _add_archive_options(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    archive = parser.add_argument_group("of a TorchScript archive")
    archive.add_argument("--method", metavar="NAME", help="the method (forward)")
    archive.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="TEXT",
        help="one argument of the method, in order or as NAME=TEXT: 4x128xi64, 3, 0.5, true, none. "
        "The method is run on them, so that every value has its shape",
    )
    return archive


def _archive_options(options: argparse.Namespace) -> TorchScriptOptions | None:
    """How the archive that `script` is is read; None where it is a model script, for which these options are not."""
    given = TorchScriptOptions(options.method, options.input)
    if is_torchscript(options.script):
        return given
    if given != TorchScriptOptions(inputs=[]):
        raise OpprofError(
            "--method and --input are for TorchScript archives; a model script says itself what its model is called with"
        )
    check_python(Path(options.script))
    return None


def _launches(options: argparse.Namespace) -> int:
    from opprof.commands.launches import launches_text, prove

    if options.prove:
        proof = prove(options.directory, options.graph)
        print(proof.to_json() if options.json else printable(proof.to_text()), end="")
        return 1 if proof.refuted or proof.failed or not proof.judged else 0
    filters = {key: getattr(options, key) for key in ("line", "module", "node", "kernel")}
    width = options.width
    if width is None and sys.stdout is not None and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    with readable_graph(options.graph) as graph:
        text = launches_text(
            options.directory, graph, as_json=options.json, filters=filters, width=width
        )
    print(text if options.json else printable(text), end="")
    return 0


def _add_launches(commands: _Commands) -> None:
    parser = commands.add_parser(
        "launches",
        help="list what compiled code launches, and the nodes that each launch computes",
        description="Reads Inductor's generated code, and lists its launches in order. The code is run only with --prove.",
    )
    parser.add_argument(
        "directory",
        type=_path,
        metavar="DIR",
        help="a run folder, a debug folder of Inductor (holding output_code.py), or a module of Inductor's cache (.py)",
    )
    parser.add_argument(
        "--graph",
        type=_path,
        metavar="FILE",
        help=f"the exported graph to follow nodes back to ({', '.join(GRAPHS)}, or a TorchScript archive)",
    )
    parser.add_argument("--json", action="store_true", help="print the launch maps as JSON")
    shown = parser.add_argument_group("which launches are shown")
    shown.add_argument(
        "--line", metavar="FILE:LINE", help="of this line of your code, or the number alone"
    )
    shown.add_argument("--module", metavar="PATH", help="of this module, and those inside it")
    shown.add_argument("--node", metavar="NAME", help="of this node, compiled or exported")
    shown.add_argument("--kernel", metavar="TEXT", help="of kernels with this in their name")
    parser.add_argument(
        "--width",
        type=_positive,
        metavar="N",
        help="columns; a launch takes two lines where one does not fit (default: those of the terminal; without one, a line a launch)",
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help="run the generated code of a run folder beside its graph, and say of each launch whether it computes exactly its nodes; "
        "the exit status is 1 where one does not, where a graph could not be run, and where of all launches none could be judged. "
        "Only for code that you made yourself",
    )
    parser.set_defaults(run=_launches)


def _profile(options: argparse.Namespace) -> None:
    recorded = (options.graph, options.code, options.trace)
    if options.script is None:
        if options.trace is None or (options.graph is None and options.code is None):
            raise OpprofError(
                "nothing to profile",
                remedy="give a model script, or for files recorded elsewhere --trace and --graph, --code, or both; "
                "`opprof report FILE` shows a trace alone",
            )
        from opprof.chain import profile_from_files

        with locked(options.output), readable_graph(options.graph) as graph:
            counters = Path(options.counters) if options.counters else None
            page = profile_from_files(graph, options.code, options.trace, options.output, counters)
        print(page, end="")
    else:
        if any(recorded):
            raise OpprofError(
                "--graph, --code and --trace take the place of a model script; give one or the other"
            )
        if options.counters not in (None, *COUNTER_MODES):
            raise OpprofError(
                f"--counters={options.counters} is none of {', '.join(COUNTER_MODES)}",
                remedy="a file of counters goes with --trace and --graph or --code",
            )
        check_folder(options.output)
        check_script(Path(options.script))
        archive = _archive_options(options)
        from opprof.commands.profile import ProfileOptions, profile_script

        default_mode = "inductor" if archive is None else "eager"
        profile = ProfileOptions(
            archive=archive,
            warm_up=options.warmup,
            traced=options.iters,
            eager=options.eager,
            mode=options.mode or default_mode,
            device=options.device,
            counters=options.counters,
            metrics=options.metrics,
            replay=options.replay,
            kernels=options.kernels,
            top=options.top,
            launch_skip=options.launch_skip,
            launch_count=options.launch_count,
        )
        with locked(options.output):
            profile_script(options.script, options.output, profile, shows=True)


def _add_profile(commands: _Commands) -> None:
    parser = commands.add_parser(
        "profile",
        help="compile a model, capture it, and say where its time goes",
        description="Compiles the model of a script, times it, captures its timeline and hardware counters in the same process, "
        "and fills a run folder: graphs, generated code, timeline, and the profile that joins them. Without a GPU, torch.profiler "
        "traces the CPU. The script is run. With --graph, --code and --trace the same is made of files recorded elsewhere, and "
        "nothing is run.",
    )
    parser.add_argument(
        "script",
        nargs="?",
        metavar="MODEL",
        help="a script that defines get_model_and_input() -> (module, input), or an archive of torch.jit.save",
    )
    parser.add_argument(
        "-o", "--output", type=_path, required=True, metavar="DIR", help="the run folder to fill"
    )
    parser.add_argument(
        "--iters", type=_positive, default=5, metavar="N", help="steps to capture (default: 5)"
    )
    parser.add_argument(
        "--warmup",
        type=_positive,
        default=3,
        metavar="N",
        help="steps to run before timing (default: 3)",
    )
    parser.add_argument(
        "--no-eager",
        dest="eager",
        action="store_false",
        help="do not time the uncompiled program beside the compiled one",
    )
    parser.add_argument(
        "--mode",
        metavar="MODE",
        help="inductor (default of a script); eager: the exported graph, node by node; cudagraphs: Inductor's program in one CUDA graph; or "
        "a torch.compile backend, by its name or by the file that `opprof emit` wrote",
    )
    _add_device(parser)
    _add_archive_options(parser)
    _add_counter_options(parser)
    recorded = parser.add_argument_group("files recorded elsewhere")
    recorded.add_argument(
        "--graph",
        type=_path,
        metavar="FILE",
        help=f"the exported graph ({', '.join(GRAPHS)}, or a TorchScript archive); left out where nobody exported one: "
        "nodes are those of the graphs in --code then",
    )
    recorded.add_argument(
        "--code",
        type=_path,
        metavar="DIR",
        help="Inductor's debug folder, or a folder of them; left out where the program ran uncompiled",
    )
    recorded.add_argument(
        "--trace",
        type=_path,
        metavar="FILE",
        help="the recording: a trace of torch.profiler (.json, .json.gz), a capture (.opcap), a report of Nsight Systems (.nsys-rep, "
        ".qdrep) or its export (.sqlite)",
    )
    parser.set_defaults(run=_profile, loads_pytorch=True)


def _add_counter_options(parser: argparse.ArgumentParser) -> None:
    counted = parser.add_argument_group(
        "hardware counters of one step (on a GPU)",
        "Kernels are narrowed by name, then to the longest, then by place among what is left.",
    )
    counted.add_argument(
        "--counters",
        metavar="WHICH",
        help="unique (default): kernels of unique partitions, whose duplicates take them over; all: of every kernel; step: one range "
        "over the whole step, which runs at its own speed, alone or beside the kernels (unique,step or all,step); none. With --graph and --trace, a file: what ncu "
        "--csv --page raw (or details) printed, its report (.ncu-rep), or counters.json",
    )
    counted.add_argument(
        "--metrics",
        default="default",
        metavar="NAMES",
        help="sets (default, roofline, memory, stalls, pipes) and CUPTI's own names, with commas between",
    )
    counted.add_argument(
        "--replay",
        choices=("user", "kernel"),
        default="user",
        help="how a counter pass repeats: the step, or each kernel by itself (slower; for steps that differ)",
    )
    counted.add_argument(
        "--kernels", metavar="REGEX", help="only kernels in whose name this is found"
    )
    counted.add_argument(
        "--top",
        type=_positive,
        metavar="N",
        help="only the N kernels with the longest total time in the timeline",
    )
    counted.add_argument(
        "--launch-skip",
        type=_from_zero,
        default=0,
        metavar="N",
        help="pass over the first N of the launches that are left",
    )
    counted.add_argument(
        "--launch-count",
        type=_positive,
        metavar="N",
        help="count at most N of the launches that are left",
    )


def _seconds_of_rate(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.05 <= seconds <= 60:
        raise argparse.ArgumentTypeError(f"{text} is no time from 0.05 to 60 seconds")
    return seconds


#: What the tools count with.
_LARGEST = 2**31 - 1


def _positive(text: str) -> int:
    return _whole(text, 1)


def _from_zero(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above {least - 1}")
    if number > _LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is larger than {_LARGEST}")
    return number


def _number(text: str, below: float, complaint: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < below:
        raise argparse.ArgumentTypeError(f"{text!r} is {complaint}")
    return number


def _seconds(text: str) -> float:
    # A thread sleeps for as long: no clock goes on for more than some hundred years.
    return _number(text, 1e9, "no number of seconds")


def _percent(text: str) -> float:
    return _number(text.removesuffix("%").rstrip(), 1e6, "no share in percent")


def _report(options: argparse.Namespace) -> None:
    from opprof.commands.report import (
        check_report_file,
        print_json,
        report_html,
        report_perfetto,
        report_text,
    )

    if options.parquet is not None:
        from opprof.loading import load

        if len(options.files) > 1:
            raise OpprofError("--parquet writes one recording", remedy="give one of the files")
        if options.ceilings is not None:
            raise OpprofError("--ceilings changes no table", remedy="leave it out")
        for file in load(options.files[0]).to_parquet(options.parquet):
            _say_written(file)
    elif options.perfetto is not None:
        if options.ceilings is not None:
            raise OpprofError("--ceilings changes no timeline", remedy="leave it out")
        if str(options.perfetto) == "-":
            report_perfetto(options.files, sys.stdout.buffer)
        else:
            check_report_file(options.perfetto, "--perfetto")
            report_perfetto(options.files, options.perfetto)
            _say_written(options.perfetto)
    elif options.json:
        print_json(options.files, sys.stdout.buffer, ceilings=options.ceilings)
    elif options.html is not None:
        check_report_file(options.html, "--html", is_page=True)
        page = report_html(options.files, options.html, ceilings=options.ceilings)
        if str(options.html) == "-":
            sys.stdout.write(page)
        else:
            _say_written(options.html)
    else:
        print(report_text(options.files, width=options.width, ceilings=options.ceilings), end="")


def _add_report(commands: _Commands) -> None:
    parser = commands.add_parser(
        "report",
        help="show any recording or profile: what ran, where the time went, why, what to do",
        description="Shows a recording or a profile as a terminal page, as JSON, or as a self-contained HTML page. What a file is, its "
        "content says.",
    )
    parser.add_argument(
        "files",
        type=_path,
        nargs="+",
        metavar="FILE",
        help="a run folder, a profile (.opprof.json), a trace of torch.profiler (.json, .json.gz), a capture (.opcap); several, as of "
        "the ranks of a program, are set side by side",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the profile as JSON")
    form.add_argument(
        "--parquet",
        type=_path,
        metavar="DIR",
        help="write a table of kernels, copies, nodes, operators and findings each (kernels.parquet, …) to DIR, of one recording (needs pyarrow)",
    )
    form.add_argument(
        "--perfetto",
        type=_path,
        metavar="FILE",
        help="write a trace for ui.perfetto.dev to FILE (.json, .json.gz): what the host did, streams, and beside them nodes, partitions, modules and counters; of several recordings, as of ranks, on one clock",
    )
    form.add_argument(
        "--html", type=_path, metavar="FILE", help="write the page to FILE; - is stdout"
    )
    parser.add_argument(
        "--width", type=_positive, metavar="N", help="columns (default: those of the terminal)"
    )
    parser.add_argument(
        "--ceilings",
        type=_path,
        metavar="FILE",
        help="hold kernels against what `opprof ceilings` measured of the device, and not against the table or ceilings.json in the folder",
    )
    parser.set_defaults(run=_report)


def _ceilings(options: argparse.Namespace) -> None:
    import torch

    from opprof.commands.ceilings import measure_ceilings

    kind = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind == "cuda" and not torch.cuda.is_available():
        raise OpprofError("PyTorch sees no GPU", remedy="leave out --device to measure the CPU")
    found = measure_ceilings(torch.device(kind), options.seconds)
    found.write(options.output)
    print(found.as_text(), end="")
    _say_written(options.output)


def _add_ceilings(commands: _Commands) -> None:
    parser = commands.add_parser(
        "ceilings",
        help="measure what this machine's device can do at most",
        description="Measures the memory's bandwidth and the rate of matrix products in each type, and writes them to a file that reports hold "
        "kernels against: `opprof report --ceilings FILE`, or a run folder in which it lies as ceilings.json. A busy device is refused.",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_path,
        default=Path("ceilings.json"),
        metavar="FILE",
        help="what to write (ceilings.json)",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        help="what is measured (default: a GPU where there is one)",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds_of_rate,
        default=1.0,
        metavar="S",
        help="how long each rate is measured, from 0.05 to 60 (1)",
    )
    parser.set_defaults(run=_ceilings)


def _diff(options: argparse.Namespace) -> int:
    from opprof.commands.compare import diff

    if options.to:
        a, b = options.files, options.to
    elif len(options.files) == 2:
        a, b = options.files[:1], options.files[1:]
    else:
        raise OpprofError(
            f"two sides are compared, and {len(options.files)} files are given",
            remedy="give A and B, or several files a side: opprof diff A1 A2 --to B1 B2",
        )
    printed, slower = diff(
        a,
        b,
        by=options.by,
        fail_above=options.fail_above,
        form=options.format,
        width=options.width,
    )
    print(printed, end="")
    if slower is None:
        raise OpprofError(
            "whether anything is slower is not known: there are too few steps to tell a change from noise",
            remedy="record more steps (`opprof profile --iters 20`), or give more recordings",
        )
    return 1 if slower else 0


def _add_diff(commands: _Commands) -> None:
    parser = commands.add_parser(
        "diff",
        help="say what became slower from one recording to another, and how sure that is",
        description="Compares two recordings, or two sets of them, item by item. What is called a change is more than the steps of "
        "each side differ among themselves. The exit status is 0, 1 where something is slower by more than --fail-above, and 2 "
        "where the files cannot be compared, or have too few steps for --fail-above.",
    )
    parser.add_argument(
        "files",
        type=_path,
        nargs="+",
        metavar="A B",
        help="whatever `opprof report` reads: run folders, profiles, traces, captures",
    )
    parser.add_argument(
        "--to",
        type=_path,
        nargs="+",
        metavar="B",
        help="the files of the second side; the first has all others",
    )
    parser.add_argument(
        "--by",
        choices=ITEM_KINDS,
        help="what is compared beside the step (default: nodes, or else operators, or else kernels)",
    )
    parser.add_argument(
        "--fail-above",
        type=_percent,
        metavar="P%",
        help="end with status 1 where the step, its kernel time or an item is slower, beyond noise, by more than P %% of a step",
    )
    parser.add_argument(
        "--format",
        choices=DIFFERENCE_FORMS,
        default="text",
        help="text (default), markdown for a pull request, or json",
    )
    parser.add_argument(
        "--width", type=_positive, metavar="N", help="columns (default: those of the terminal)"
    )
    parser.set_defaults(run=_diff, failure=2)


def _top(options: argparse.Namespace) -> None:
    from opprof.commands.compare import top_text

    print(top_text(options.file, by=options.by, number=options.number, width=options.width), end="")


def _add_top(commands: _Commands) -> None:
    parser = commands.add_parser(
        "top",
        help="list what takes most of a recording",
        description="Lists the nodes, classes of repeated subgraphs, modules, kernels or operators that take most of a step.",
    )
    parser.add_argument("file", type=_path, metavar="FILE", help="whatever `opprof report` reads")
    parser.add_argument(
        "--by",
        choices=ITEM_KINDS,
        help="what is listed (default: nodes, or else operators, or else kernels)",
    )
    parser.add_argument(
        "-n", "--number", type=_positive, default=20, metavar="N", help="lines (default: 20)"
    )
    parser.add_argument(
        "--width", type=_positive, metavar="N", help="columns (default: those of the terminal)"
    )
    parser.set_defaults(run=_top)


def _explain(options: argparse.Namespace) -> None:
    from opprof.commands.compare import explain_text

    if options.file is not None and not options.file.exists() and Path(options.finding).exists():
        raise OpprofError(
            f"the finding comes first: opprof explain {options.file} {options.finding}"
        )
    print(explain_text(options.finding, options.file, width=options.width), end="")


def _add_explain(commands: _Commands) -> None:
    parser = commands.add_parser(
        "explain",
        help="say what a finding means, what to do about it, and when it would not be true",
        description="Explains a finding by the id that reports have for it, and with a recording its evidence there.",
    )
    parser.add_argument("finding", metavar="FINDING", help="its id, such as small-kernels")
    parser.add_argument(
        "file", type=_path, nargs="?", metavar="FILE", help="whatever `opprof report` reads"
    )
    parser.add_argument(
        "--width", type=_positive, metavar="N", help="columns (default: those of the terminal)"
    )
    parser.set_defaults(run=_explain)


def _steps(text: str) -> tuple[int, int]:
    """The first step and the one after the last: "20:40"."""
    found = re.fullmatch(r"(\d{1,15}):(\d{1,15})", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(
            f"{text!r} are no steps: 20:40 are those from 20 to 39, counted from 0"
        )
    return int(found[1]), int(found[2])


def _run_program(options: argparse.Namespace) -> int:
    from opprof.commands.run import Part, run_program, run_waiting, step_of_graph
    from opprof.recording.metrics import resolve

    if options.graph_step is not None and not options.graph:
        raise OpprofError("--graph-step says of which step --graph is", remedy="give --graph too")
    if options.graph and options.wait:
        raise OpprofError("--graph is of a step, and --wait counts none", remedy="leave out one")
    if (options.steps is not None) + bool(options.delay or options.duration) + options.wait > 1:
        raise OpprofError(
            "--steps, --delay with --duration, and --wait each choose what is recorded",
            remedy="give one of them",
        )
    if options.counters and options.steps is None:
        raise OpprofError(
            "--counters=step counts the steps that follow those of --steps",
            remedy="give --steps too: --steps=20:40 --counters=step",
        )
    if options.metrics is not None and not options.counters:
        raise OpprofError(
            "--metrics says what --counters counts", remedy="give --counters=step too"
        )
    # Before anything runs: a name that there is not is the caller's to mend.
    metrics = resolve(options.metrics or "default") if options.counters else None
    with locked(options.output) as is_new:
        if options.wait:
            return run_waiting(
                options.command, options.output, is_new=is_new, memory=options.memory
            )
        graph_step = options.graph_step
        if options.graph and graph_step is None:
            graph_step = step_of_graph(options.steps)
        part = Part(
            options.delay, options.duration, options.steps, options.memory, graph_step, metrics
        )
        return run_program(options.command, options.output, part)


def _add_run(commands: _Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="record an unmodified program, and report where its time went",
        description="Runs a program with the capture library injected into every process of it that uses CUDA, torchrun's "
        "too, and leaves a capture, a trace, a profile and a report (text and HTML) of each. Every Python of it that imports "
        "PyTorch has its operators recorded, with module and line, without a GPU too. The report is printed on stderr; stdout and the exit status are the program's.",
    )
    parser.add_argument(
        "-o", "--output", type=_path, required=True, metavar="DIR", help="the folder to fill"
    )
    parser.add_argument(
        "--delay", type=_seconds, default=0.0, metavar="S", help="seconds before recording begins"
    )
    parser.add_argument(
        "--duration",
        type=_seconds,
        default=0.0,
        metavar="S",
        help="seconds of recording (default: all)",
    )
    parser.add_argument(
        "--steps",
        type=_steps,
        metavar="A:B",
        help="record the steps of the program from A up to but not B, the first being 0; a step ends where the program's "
        "optimizer steps, of several the last one, or torch.profiler where there is none",
    )
    parser.add_argument(
        "--graph",
        action="store_true",
        help="record the operators of one step as a graph too, with modules, lines and shapes: what `opprof extract` and opprof-opt read. "
        "The step runs slowly; it is not one of --steps",
    )
    parser.add_argument(
        "--graph-step",
        type=_positive,
        metavar="N",
        help="the step of --graph, from 1, as the first one makes the program's state (default: the one before those of --steps, or 1); in a program without an optimizer the call of that "
        "number of its outermost module without gradients",
    )
    parser.add_argument(
        "--counters",
        choices=["step"],
        help="on a GPU, take hardware counters of the steps that follow those of --steps, as the program runs on: of each whole step at its own speed, and two steps for "
        "each pass that the counters need",
    )
    parser.add_argument(
        "--metrics",
        metavar="NAMES",
        help="sets of counters or CUPTI's metrics, as for `opprof profile` (default: default)",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="record nothing until `opprof attach` asks for it, which it can several times",
    )
    parser.add_argument(
        "--memory",
        action="store_true",
        help="record what PyTorch allocates and frees too: who holds memory at the peak, what steps take and give back, and "
        "what grows, by module and line",
    )
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="script.py …",
        help="a Python script or a program, and its arguments",
    )
    parser.set_defaults(run=_run_program)


def _extract(options: argparse.Namespace) -> None:
    from opprof.commands.extract import extract_module

    extract_module(
        options.run_folder, options.module, options.output, options.call, training=options.training
    )


def _add_extract(commands: _Commands) -> None:
    parser = commands.add_parser(
        "extract",
        help="write a module of a recorded program as a script of its own",
        description="Cuts a call of a module out of the step that `opprof run --graph` recorded, and writes it as a script with "
        "get_model_and_input() and get_inputs(seed), for `opprof profile` and `opprof optimize`: its forward operators as they ran, with "
        "weights and inputs of the recorded shapes and numbers like the recorded ones.",
    )
    parser.add_argument(
        "run_folder",
        type=_path,
        metavar="RUN",
        help="the folder of `opprof run --graph`, or of one rank its graph-r<rank>-p<process>.json",
    )
    parser.add_argument(
        "--module",
        required=True,
        metavar="PATH",
        help="its path in the program, as reports have it; the end of it is enough: encoder.layers.3",
    )
    parser.add_argument(
        "--call",
        type=_from_zero,
        default=0,
        metavar="N",
        help="which of its calls in the step, where there are several (default: 0, the first)",
    )
    parser.add_argument(
        "--training",
        action="store_true",
        help="with gradients, and a make_step() that runs backward too (default: forward alone, in eval mode)",
    )
    parser.add_argument(
        "-o", "--output", type=_path, required=True, metavar="FILE", help="the script: layer.py"
    )
    parser.set_defaults(run=_extract)


def _attach(options: argparse.Namespace) -> None:
    from opprof.commands.attach import attach

    with locked(options.output) as is_new:
        attach(options.process, options.output, options.seconds, is_new=is_new)


def _add_attach(commands: _Commands) -> None:
    parser = commands.add_parser(
        "attach",
        help="record a program that runs already, and report where its time goes",
        description="Records a process of a program that was started by `opprof run --wait` for some seconds, and reports them "
        "as `opprof run` does. The program goes on as before, and can be recorded again.",
    )
    parser.add_argument("process", type=_positive, metavar="PID", help="the process")
    parser.add_argument(
        "-o", "--output", type=_path, required=True, metavar="DIR", help="the folder to fill"
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="seconds of recording (default: 10)",
    )
    parser.set_defaults(run=_attach)


def _merge(options: argparse.Namespace) -> None:
    from opprof.commands.merge import merge, merge_text

    print(printable(merge_text(merge(options.captures, options.output))), end="")


def _add_merge(commands: _Commands) -> None:
    parser = commands.add_parser(
        "merge",
        help="join the captures of several ranks",
        description="Joins captures of several ranks on one clock into one trace, and says how much of each rank's "
        "communication is exposed and how far the ranks are apart. Traces of torch.profiler and exports of Nsight Systems "
        "are set side by side by `opprof report`, which puts them on one clock with --perfetto.",
    )
    parser.add_argument(
        "captures",
        nargs="+",
        type=_path,
        metavar="FILE",
        help=f"captures ({CAPTURE}), or folders of them",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_path,
        required=True,
        metavar="FILE",
        help="the trace to write (.json)",
    )
    parser.set_defaults(run=_merge)


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        help="move the model and its inputs there before anything runs (default: where the script puts them)",
    )


def _add_error_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--error-budget",
        type=_budget,
        default=DEFAULT_ERROR_BUDGET,
        metavar="E",
        help="the relative error against float64 that is allowed: 1e-3 (default) allows float16, 1e-2 bfloat16 too, "
        "0 asks for the bits of plain Inductor",
    )


def _budget(text: str) -> float:
    return _number(text, 1, "not a number from 0 up to 1")


def _add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rules",
        type=_path,
        metavar="DIR",
        help="a folder of your own rewrite scripts, which are tried like those of the rules",
    )


def _recommend(options: argparse.Namespace) -> None:
    from opprof.commands.recommend import recommend, rewrites_text, unseen_by_rules

    rewrites = recommend(
        options.profile, options.output, error_budget=options.error_budget, rules=options.rules
    )
    text = rewrites_text(rewrites, unseen_by_rules(options.profile))
    print(printable(text), end="")


def _add_recommend(commands: _Commands) -> None:
    parser = commands.add_parser(
        "recommend",
        help="write the rewrites that should make a profiled model faster",
        description="Asks the rules what they have to offer for a profiled graph, and writes one transform script each, ranked "
        "by the time that it should save, with an index. Nothing is run.",
    )
    parser.add_argument(
        "profile",
        type=_path,
        metavar="RUN",
        help="a run folder of `opprof profile`, or a graph (.mlir)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_path,
        required=True,
        metavar="DIR",
        help="the folder for the scripts",
    )
    _add_error_budget(parser)
    _add_rules(parser)
    parser.set_defaults(run=_recommend)


def _emit(options: argparse.Namespace) -> None:
    from opprof.commands.emit import emit_backend, emit_skeleton

    check_model(options.model)
    write = emit_skeleton if options.skeleton else emit_backend
    for file in write(options.rewrites, options.output, options.model):
        _say_written(file)


def _add_emit(commands: _Commands) -> None:
    parser = commands.add_parser(
        "emit",
        help="make a torch.compile backend of rewrite scripts",
        description="Writes a torch.compile backend that applies rewrite scripts, and its pytest file. Both need PyTorch only. "
        "Nothing is run.",
    )
    parser.add_argument(
        "rewrites",
        type=_path,
        metavar="REWRITES",
        help="a rewrite script, or a folder of them; with --skeleton a run folder",
    )
    parser.add_argument(
        "-o", "--output", type=_path, required=True, metavar="FILE.py", help="the backend to write"
    )
    parser.add_argument("--model", metavar="model.py", help="the model script that it is for")
    parser.add_argument(
        "--skeleton",
        action="store_true",
        help="write an empty pass for each finding of the run that no rule answers, to be filled in",
    )
    parser.set_defaults(run=_emit)


def _validate(options: argparse.Namespace) -> int:
    from opprof.commands.validate import validate, verdict_text

    check_model(options.model)
    # What an archive is taken for when it stands in the backend's place.
    if is_torchscript(options.backend):
        raise OpprofError(
            f"{options.backend}: is a TorchScript archive, and no backend",
            remedy="`opprof optimize` makes a backend for it, and proves that",
        )
    with program_output_on_stderr():
        verdict = validate(
            options.backend,
            model=options.model,
            device=options.device,
            error_budget=options.error_budget,
        )
    print(printable(verdict_text(verdict)), end="")
    return 0 if verdict.passed else 1


def _add_validate(commands: _Commands) -> None:
    parser = commands.add_parser(
        "validate",
        help="prove that a backend is right and faster",
        description="Checks a backend: syntax, import, registration, where its rewrites apply, equality on fresh inputs, and a "
        "gain over plain Inductor in two measurements. The backend and the model script are run. The exit status is 1 where a "
        "check fails.",
    )
    parser.add_argument("backend", type=_path, metavar="FILE.py", help="what `opprof emit` wrote")
    parser.add_argument(
        "--model", metavar="model.py", help="the model script, where the file names none"
    )
    _add_device(parser)
    _add_error_budget(parser)
    parser.set_defaults(run=_validate, loads_pytorch=True)


def _optimize(options: argparse.Namespace) -> None:
    check_folder(options.output)
    check_script(Path(options.script))
    archive = _archive_options(options)
    with locked(options.output), program_output_on_stderr():
        start_server()
        from opprof.commands.optimize import OptimizeOptions, optimize

        optimize(
            options.script,
            options.output,
            OptimizeOptions(
                error_budget=options.error_budget,
                rules=options.rules,
                budget_seconds=options.budget_seconds,
                device=options.device,
                archive=archive,
            ),
        )
    print((options.output / "report.txt").read_text(encoding="utf-8"), end="")


def _add_optimize(commands: _Commands) -> None:
    parser = commands.add_parser(
        "optimize",
        help="the main job: profile, recommend, try, prove, and keep what wins",
        description="Profiles the model of a script, tries what the rules recommend, keeps what is right and faster, in two "
        "measurements, than anything that can be written without opprof, and reports. The script is run, in several processes where "
        "the machine has cores for them. Where nothing wins, the report says what to use instead.",
    )
    parser.add_argument(
        "script",
        metavar="MODEL",
        help="a script that defines get_model_and_input() -> (module, input), or an archive of torch.jit.save without control flow",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_path,
        required=True,
        metavar="DIR",
        help="the folder for all results",
    )
    _add_error_budget(parser)
    _add_rules(parser)
    _add_device(parser)
    _add_archive_options(parser)
    parser.add_argument(
        "--budget-seconds",
        type=_seconds,
        default=180.0,
        metavar="S",
        help="end after about as many seconds (default: 180); the report names what was left out for it",
    )
    parser.set_defaults(run=_optimize, loads_pytorch=True)


def _completion(options: argparse.Namespace) -> None:
    from opprof.commands.completion import completion_script

    print(completion_script(build_parser(), options.shell), end="")


def _add_completion(commands: _Commands) -> None:
    from opprof.commands.completion import SHELLS

    parser = commands.add_parser(
        "completion",
        help="print what makes a shell complete opprof's command line",
        description="Prints a script for the shell: `source <(opprof completion bash)` in ~/.bashrc.",
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=_completion)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="opprof",
        description="Tells why a PyTorch program is slow, node by node of its graph, and makes a faster one.",
    )
    parser.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        help="show the versions of opprof and of what it works with, and exit",
    )
    commands = parser.add_subparsers(
        metavar="COMMAND", required=True, parser_class=_Parser, title="commands"
    )
    for add in (
        _add_optimize,
        _add_export,
        _add_launches,
        _add_profile,
        _add_report,
        _add_ceilings,
        _add_diff,
        _add_top,
        _add_explain,
        _add_run,
        _add_extract,
        _add_attach,
        _add_merge,
        _add_recommend,
        _add_emit,
        _add_validate,
        _add_completion,
    ):
        add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status."""
    prepare_streams()
    failure = 1
    try:
        try:
            options = build_parser().parse_args(arguments)
        except SystemExit:
            # It prints too: help, and versions.
            sys.stdout.flush()
            raise
        failure = getattr(options, "failure", 1)
        if getattr(options, "loads_pytorch", False):
            keep_bytecode()
        status = options.run(options) or 0
        sys.stdout.flush()
        return status
    except OpprofError as error:
        if isinstance(error, ProgramError):
            print(printable(error.program_traceback()), end="", file=sys.stderr)
        print(printable(f"opprof: error: {error}"), file=sys.stderr)
        if error.remedy:
            print(printable(f"  {error.remedy}"), file=sys.stderr)
        return failure
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        print(
            f"opprof: error: this command needs PyTorch, which {sys.executable} does not have: pip install torch",
            file=sys.stderr,
        )
        return failure
    except BrokenPipeError:
        # `opprof report run/ | head`: what reads the page has seen enough. Python would flush into the closed pipe once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        # A full disk, a file without permission: the system's words and the file are all there is to say.
        print(
            printable(
                f"opprof: error: {error.filename or 'input or output'}: {error.strerror or error}"
            ),
            file=sys.stderr,
        )
        try:
            sys.stdout.flush()
        except OSError:
            # Python would try once more at its end, complain, and make 120 of the exit status.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failure
    except KeyboardInterrupt:
        print("opprof: interrupted", file=sys.stderr)
        return 130

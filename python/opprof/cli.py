"""The `opprof` command: reads the command line, calls the module that does the work, and shows errors as people need them.

Nothing is imported here that a subcommand does not need: `opprof report` starts without PyTorch.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

import opprof
from opprof.errors import OpprofError

STAGES = ("export", "dynamo", "aot", "aot_forward", "aot_joint", "aot_backward", "post_grad")


class _Parser(argparse.ArgumentParser):
    """argparse, but an error ends with the command that explains it instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n  `{self.prog} --help` explains the options\n")


def _export(options: argparse.Namespace) -> None:
    from opprof.export import export_script

    for file in export_script(options.script, options.output, options.stage):
        print(f"wrote {file}", file=sys.stderr)


def _add_export(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "export",
        help="write a model's graph as MLIR or JSON",
        description="Exports the model of a script and writes its graph. The script is run.",
    )
    parser.add_argument(
        "script", metavar="model.py", help="defines get_model_and_input() -> (module, input)"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="what to write: .mlir (text), .mlirbc (bytecode) or .json (graph JSON)",
    )
    parser.add_argument(
        "--stage",
        choices=STAGES,
        default="export",
        help="torch.export's graph (default), or one of what torch.compile makes of the model",
    )
    parser.set_defaults(run=_export)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="opprof",
        description="Tells why a PyTorch program is slow, node by node of its graph, and makes a faster one.",
    )
    parser.add_argument("--version", action="version", version=f"opprof {opprof.__version__}")
    commands = parser.add_subparsers(
        metavar="COMMAND", required=True, parser_class=_Parser, title="commands"
    )
    _add_export(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status."""
    options = build_parser().parse_args(arguments)
    try:
        options.run(options)
    except OpprofError as error:
        print(f"opprof: error: {error}", file=sys.stderr)
        if error.remedy:
            print(f"  {error.remedy}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("opprof: interrupted", file=sys.stderr)
        return 130
    return 0

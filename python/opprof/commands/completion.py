"""`opprof completion`: what a shell completes of the command line, made of the parser itself."""

import argparse
import shlex
from collections.abc import Iterator

SHELLS = ("bash", "zsh", "fish")


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    for action in parser._actions:
        for name in action.option_strings:
            yield name, action


def _bash(parser: argparse.ArgumentParser) -> str:
    commands = _commands(parser)
    cases, values = [], []
    for command, own in commands.items():
        names = " ".join(name for name, _ in _options(own))
        cases.append(f"    {command}) words={shlex.quote(names)} ;;")
        for name, action in _options(own):
            if action.choices:
                choices = " ".join(map(str, action.choices))
                values.append(
                    f'    "{command} {name}") COMPREPLY=($(compgen -W {shlex.quote(choices)} -- "$word")); return ;;'
                )
    return "\n".join(
        [
            "_opprof() {",
            '  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=""',
            "  COMPREPLY=()",
            "  if [ $COMP_CWORD -eq 1 ]; then",
            f'    COMPREPLY=($(compgen -W {shlex.quote(" ".join([*commands, "--help", "--version"]))} -- "$word"))',
            "    return",
            "  fi",
            '  case "$command ${COMP_WORDS[COMP_CWORD-1]}" in',
            *values,
            "  esac",
            '  case "$command" in',
            *cases,
            "  esac",
            '  case "$word" in',
            '    -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;',
            '    *) COMPREPLY=($(compgen -f -- "$word")) ;;',
            "  esac",
            "}",
            "complete -o filenames -F _opprof opprof",
            "",
        ]
    )


def _fish(parser: argparse.ArgumentParser) -> str:
    lines = []
    helps = {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }
    for command, own in _commands(parser).items():
        lines.append(
            f"complete -c opprof -n __fish_use_subcommand -a {command} -d {shlex.quote(helps.get(command, ''))}"
        )
        for name, action in _options(own):
            flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            takes = "" if action.nargs == 0 else " -r"
            choices = (
                f" -f -a {shlex.quote(' '.join(map(str, action.choices)))}"
                if action.choices
                else ""
            )
            lines.append(
                f"complete -c opprof -n '__fish_seen_subcommand_from {command}' {flag}{takes}{choices}"
            )
    return "\n".join([*lines, ""])


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """What the shell is to read: `source <(opprof completion bash)`."""
    if shell == "fish":
        return _fish(parser)
    script = _bash(parser)
    return script if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{script}"

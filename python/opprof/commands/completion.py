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


def _choices(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))


def _positional_choices(parser: argparse.ArgumentParser) -> str:
    """What may stand where an argument without a name does; empty where that is a file."""
    return " ".join(
        _choices(action)
        for action in parser._actions
        if not action.option_strings and action.choices
    )


def _bash(parser: argparse.ArgumentParser) -> str:
    commands = _commands(parser)
    cases, values = [], []
    for command, own in commands.items():
        names = " ".join(name for name, _ in _options(own))
        plain = _positional_choices(own)
        cases.append(
            f"    {command}) words={shlex.quote(names)}{f' plain={shlex.quote(plain)}' if plain else ''} ;;"
        )
        values += [
            f'    "{command} {name}") _opprof_add -W {shlex.quote(_choices(action))}; return ;;'
            for name, action in _options(own)
            if action.choices
        ]
    return "\n".join(
        [
            "# Line by line: a name of a file may hold spaces.",
            "_opprof_add() {",
            "  local line",
            '  while IFS= read -r line; do COMPREPLY+=("$prefix$line"); done < <(compgen "$@" -- "$word")',
            "}",
            "_opprof() {",
            '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words="" plain="" prefix=""',
            "  COMPREPLY=()",
            "  if [ $COMP_CWORD -eq 1 ]; then",
            f"    _opprof_add -W {shlex.quote(' '.join([*commands, '--help', '--version']))}",
            "    return",
            "  fi",
            "  # Bash takes --name=value for three words, zsh for one.",
            '  case "$before $word" in',
            '    *" =") word="" ;;',
            '    "= "*) before=${COMP_WORDS[COMP_CWORD-2]} ;;',
            '    *" --"*=*) before=${word%%=*} prefix=${word%%=*}= word=${word#*=} ;;',
            "  esac",
            '  case "$command $before" in',
            *values,
            "  esac",
            '  case "$command" in',
            *cases,
            "  esac",
            '  case "$word" in',
            '    -*) _opprof_add -W "$words" ;;',
            '    *) if [ -n "$plain" ]; then _opprof_add -W "$plain"; else _opprof_add -f; fi ;;',
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
        if plain := _positional_choices(own):
            lines.append(
                f"complete -c opprof -n '__fish_seen_subcommand_from {command}' -f -a {shlex.quote(plain)}"
            )
        for name, action in _options(own):
            flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            takes = "" if action.nargs == 0 else " -r"
            choices = f" -f -a {shlex.quote(_choices(action))}" if action.choices else ""
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

"""The command `completion`: prints a script that lets a shell complete commands, flags, values, players and runs.

The script is made from the tables of commands and options that make the help, so it knows every flag that they know.
"""

import argparse
import importlib
from collections.abc import Iterator
from typing import NamedTuple

from marl.cli import COMMANDS
from marl.invocation import command
from marl.storage.run_folder import GROUP
from marl.storage.run_names import LAST_RUN, RUNS_DIR

SHELLS = ("bash", "zsh", "fish")
RUNS, PLAYERS = "RUN", "PLAYER"  # kinds of values that are looked up
FIND_RUNS = f"command ls {RUNS_DIR}/{GROUP} 2>/dev/null"
HOW = """# Completion of the command `snakes` for {shell}. To use it:
#   {use}
"""
USE = {
    "bash": 'eval "$({command})"  (in ~/.bashrc for every shell)',
    "zsh": 'eval "$({command})"  (in ~/.zshrc for every shell, after compinit)',
    "fish": "{command} > ~/.config/fish/completions/snakes.fish",
}
BASH = """_snakes() {{
    local cur=$2 prev=$3 cmd=${{COMP_WORDS[1]}} offer=
    if [ "$COMP_CWORD" -eq 1 ]; then
        offer="{commands}"
    else
        case "$cmd ${{prev//-/_}}" in
{values}
        *) case "$cmd" in
{flags}
            esac ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$offer" -- "$cur"))
}}
complete -o default -F _snakes snakes
"""


class Flag(NamedTuple):
    """A flag as a shell completes it."""

    name: str  # with dashes in front
    choices: tuple[str, ...] = ()  # words that may follow
    takes_value: bool = True
    adds_runs: bool = False  # whether names of runs may follow, too


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(f"{shell + ':':6} {_use(shell)}" for shell in SHELLS)
    parser.add_argument("shell", choices=SHELLS, help="the shell to print the script for")


def run(args: argparse.Namespace) -> int:
    print(script(args.shell), end="")
    return 0


def _use(shell: str) -> str:
    """The line that a user types to get completion in a shell."""
    return USE[shell].format(command=command("completion", shell))


def script(shell: str) -> str:
    """The completion script for a shell."""
    flags = {name: list(flags_of(name)) for name in COMMANDS}
    first = {name: _first_words(name) for name in COMMANDS}
    head = HOW.format(shell=shell, use=_use(shell))
    if shell == "fish":
        return head + "\n".join(_fish(flags, first)) + "\n"
    zsh = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return head + zsh + _bash(flags, first)


def flags_of(name: str) -> Iterator[Flag]:
    """The flags of a command, from the tables of its help."""
    module = importlib.import_module(COMMANDS[name][0])
    if name == "train":
        yield from _train_flags()
        return
    parser = argparse.ArgumentParser(prog=name)
    module.add_arguments(parser)
    for action in parser._actions:
        for flag in action.option_strings:
            if flag.startswith("--"):
                yield Flag(flag, *_values(action))


def _values(action: argparse.Action) -> tuple[tuple[str, ...], bool, bool]:
    """Words, whether a value follows, and whether it may be a run."""
    if action.nargs == 0:
        return (), False, False
    kind = action.metavar
    if kind == PLAYERS:
        return _players(), True, True
    if kind == RUNS:
        return (LAST_RUN,), True, True
    return tuple(map(str, action.choices or ())), True, False


def _train_flags() -> Iterator[Flag]:
    from marl.commands.train_argv import FLAGS
    from marl.config.named_configs import config_names
    from marl.config.options import Schema
    from marl.config.train_config import ALIASES, TrainConfig
    from marl.config.values import choices_of

    yield Flag("--config", tuple(config_names()))
    schema = Schema(TrainConfig, ALIASES)
    sections = tuple(section for section in schema.sections if section)
    yield Flag("--help", ("all", *sections))
    for name, takes_value in FLAGS.items():
        yield Flag(f"--{name}", takes_value=takes_value is not False)
    for option in schema.options.values():
        aliases = [f"--{alias}" for alias, meant in schema.aliases.items() if meant is option]
        words = ("true", "false") if option.is_bool else choices_of(option.type)
        is_run = option.path == "resume"
        for flag in dict.fromkeys([schema.shortest_flag(option), *aliases]):
            yield Flag(flag, (LAST_RUN, "auto", "never") if is_run else words, True, is_run)
    shared = {option.name for option in schema.options.values() if len(schema.find(option.name)) > 1}
    for name in sorted(shared):
        yield Flag(f"--{name}")


def _first_words(name: str) -> tuple[tuple[str, ...], bool]:
    """Words that may follow the command itself, and whether runs may, too."""
    if name == "runs":
        from marl.commands.runs import ACTIONS

        return (*ACTIONS, LAST_RUN), True
    if name == "bench":
        from marl.bench.command import KNOWN_SUBJECTS

        return KNOWN_SUBJECTS, False
    return {
        "completion": (SHELLS, False),
        "export": (("champion", LAST_RUN), True),
        "doctor": ((LAST_RUN,), True),
        "replay": ((LAST_RUN,), True),
        "report": ((LAST_RUN,), True),
    }.get(name, ((), False))


def _players() -> tuple[str, ...]:
    from opponents.scheduler import LADDER

    return (*LADDER, "champion", LAST_RUN)


def _bash(flags: dict[str, list[Flag]], first: dict[str, tuple[tuple[str, ...], bool]]) -> str:
    values, names = [], []
    for name, each in flags.items():
        for flag in each:
            if flag.choices:
                runs = f" $({FIND_RUNS})" if flag.adds_runs else ""
                key = f"{name} {flag.name.replace('-', '_')}"
                values.append(f'        "{key}") offer="{" ".join(flag.choices)}{runs}" ;;')
        words, adds_runs = first[name]
        all_words = " ".join(dict.fromkeys([*words, *(flag.name for flag in each), "--help"]))
        names.append(f'            {name}) offer="{all_words}{f" $({FIND_RUNS})" if adds_runs else ""}" ;;')
    commands = " ".join([*COMMANDS, "--help", "--version"])
    return BASH.format(commands=commands, values="\n".join(values), flags="\n".join(names))


def _fish(flags: dict[str, list[Flag]], first: dict[str, tuple[tuple[str, ...], bool]]) -> Iterator[str]:
    for name, (_, summary) in COMMANDS.items():
        about = summary.replace("'", "")
        yield f"complete -c snakes -n __fish_use_subcommand -f -a {name} -d '{about}'"
    for name, each in flags.items():
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        words, adds_runs = first[name]
        if words:
            yield f"complete -c snakes {seen} -a '{' '.join(words)}{f' ({FIND_RUNS})' if adds_runs else ''}'"
        for flag in each:
            runs = f" ({FIND_RUNS})" if flag.adds_runs else ""
            value = f" -x -a '{' '.join(flag.choices)}{runs}'" if flag.choices else " -r" if flag.takes_value else ""
            yield f"complete -c snakes {seen} -l {flag.name.removeprefix('--')}{value}"

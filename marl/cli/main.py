"""The command line: finds the command, parses its flags, and reports a user's mistake in one line.

A command is a module with a line in COMMANDS and two functions, `add_arguments(parser)` and `run(args) -> int`. If it
parses its flags itself, it has `run_argv(argv) -> int` instead. An optional `set_aside(argv)` splits the arguments into
those for the parser and the rest, which `run` gets as `args.set_aside`; `TRAINS = True` says that these are for a
training. All commands know --import. The module of a command is imported only when
the command is called, and it imports torch only in `run`: help and error messages must appear at once.
"""

import argparse
import atexit
import contextlib
import difflib
import gc
import importlib
import importlib.util
import io
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NoReturn, TextIO

import marl
from marl import plugins
from marl.cli import machine_errors
from marl.cli.arguments import add_import_flag
from marl.cli.invocation import ACTIVATE, SCRIPT, SETUP, TRAIN, command, example, interpreter, is_long, program
from marl.cli.wording import in_one_line
from marl.errors import UserError

# name: (module, description in the help text)
COMMANDS = {
    "train": ("marl.commands.train", "Train a team, in one process or many ranks."),
    "sweep": ("marl.commands.sweep", "Search good values of training options, with Optuna."),
    "runs": ("marl.commands.runs", "List, compare, delete and prune training runs."),
    "report": ("marl.commands.report", "Compare configurations over several seeds: tables, curves, intervals, a page."),
    "eval": ("marl.commands.eval", "Measure a player: matches against another one, with 95 % intervals."),
    "league": ("marl.commands.league", "Measure many players: all against all, points, ratings, a picture."),
    "grade": ("marl.commands.grade", "Grade a folder of submissions: matches against chosen opponents, points, a CSV."),
    "exploit": ("marl.commands.exploit", "Train best responses to a player, and measure what it keeps against them."),
    "play": ("marl.commands.play", "Watch two players in a window, play yourself, or watch a team in training."),
    "replay": ("marl.commands.replay", "Show recorded matches: window, terminal, HTML, GIF, MP4 or PNG."),
    "demo": ("marl.commands.demo", "Play one match and print the board as text."),
    "export": ("marl.export.command", "Write a team as a competition submission, web page, ONNX or safetensors."),
    "bench": ("marl.bench.command", "Measure how fast arena, opponents and training run on this machine."),
    "doctor": ("marl.doctor.command", "Check this machine (packages, game, ranks, disk), or a run or checkpoint."),
}
# The commands by purpose, for the help text.
GROUPS = {
    "Train": ("train", "sweep", "runs"),
    "Measure": ("eval", "league", "grade", "exploit", "report"),
    "Watch": ("play", "replay", "demo"),
    "Send": ("export",),
    "This machine": ("bench", "doctor"),
}
FIRST_STEPS = {
    "train": "train a team",
    "eval --home last --away level2": "measure it",
    "play --red last --blue level2": "watch it",
    "runs": "list all runs",
    "runs compare last run1 --png curves.png": "compare two runs",
    "runs delete run1": "delete a run (or: runs prune)",
    "export last --jidi my_team": "export it for the competition",
}

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("arena", "opponents", "marl")


class _Parser(argparse.ArgumentParser):
    """argparse that reports errors without printing the usage."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0 success, 2 a user's mistake, 130 interrupted, or the command's own."""
    if argv is None:
        _collect_less()
    argv = _with_dashes(sys.argv[1:] if argv is None else argv)
    # torch reads this on import. Its own warnings of lost connections take many lines; ours takes one.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    try:
        _prepare_streams()
        code = _run(argv)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _notify("interrupted")
        return 130
    except BrokenPipeError:  # `| head` has closed the pipe
        _close(sys.stdout)
        return 141
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", *PACKAGES) or importlib.util.find_spec(package) is not None:
            raise
        _notify(_missing(package))
        return 2
    except Exception as error:
        line = str(error) if _is_users_mistake(error) else machine_errors.describe(error)
        if line is None:
            raise
        _notify(in_one_line(line))
        try:
            sys.stdout.flush()
        except OSError:  # the full disk is that of the output
            _close(sys.stdout)
        return 2


def _collect_less() -> None:
    """Fewer searches for garbage, none at exit: packages make 400,000 objects that stay to the end.

    For a process of our own. Of the CPU time on a Neoverse-N1 it saves 1.2 of 5.2 s of a small training, and 1.1 of
    4.0 s of `eval`.
    """
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)


def _prepare_streams() -> None:
    """Output that no mistake of its own can end: a letter that the terminal does not know is shown as its number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (`>&-`)
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (for the whole process)
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="backslashreplace")


def _notify(line: str) -> None:
    try:
        print(f"snakes: {line}", file=sys.stderr, flush=True)
    except OSError:
        _close(sys.stderr)


def _close(stream: TextIO) -> None:
    """Drop what is left to write; otherwise Python prints another error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(argv: list[str]) -> int:
    if not argv:
        raise UserError(f"a command is missing; known: {', '.join(COMMANDS)} (see {command('--help')})")
    name, *rest = argv
    if name == "help":
        name, *rest = [*rest[:1], "--help"]
    if name in ("-h", "--help"):
        print(_overview())
        return 0
    if name == "--version":
        print(_version())
        return 0
    if name not in COMMANDS:
        kind = "flag" if name.startswith("-") else "command"
        guess = _guess(name, [*COMMANDS, "--help", "--version"])
        raise UserError(f"unknown {kind} {name!r}{guess}; known commands: {', '.join(COMMANDS)}")
    machine_errors.check_address_space()
    module_name, summary = COMMANDS[name]
    own_code, others = plugins.split_imports(rest)
    _import_plugins(own_code)
    module = importlib.import_module(module_name)
    if hasattr(module, "run_argv"):  # a command that parses its own flags
        _prepare_libraries()
        return module.run_argv(rest)
    rest = others
    parser = _Parser(prog=command(name), description=summary, allow_abbrev=False)
    module.add_arguments(parser)
    add_import_flag(parser)
    if hasattr(module, "set_aside"):
        rest, aside = module.set_aside(rest)
        if getattr(module, "TRAINS", False):  # processes with these words import it, too
            aside = [*aside, *(f"{plugins.FLAG}={each}" for each in own_code)]
        parser.set_defaults(set_aside=aside)
    _check_flags(parser, name, rest)
    args, unknown = parser.parse_known_args(rest)
    if unknown:
        raise UserError(f"{name} does not know what to do with {unknown[0]!r} (see {parser.prog} --help)")
    _prepare_libraries()
    return module.run(args)


def _import_plugins(names: Sequence[str]) -> None:
    """Import own code of the user: that of installed packages, and what these names say."""
    if names or plugins.has_entry_points():
        _prepare_libraries()  # it may use them
        plugins.import_entry_points()
        plugins.import_plugins(names)


def _prepare_libraries() -> None:
    """What must come before torch, Numba and pygame are used."""
    warnings.filterwarnings("ignore", "pkg_resources is deprecated")  # pygame's own, beside an older setuptools
    from marl.compute.thread_variables import set_thread_variables  # loads the arena, which help does without

    set_thread_variables()


def _check_flags(parser: argparse.ArgumentParser, command: str, argv: list[str]) -> None:
    # Before argparse, which would first report the value that follows an unknown flag.
    known = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]
    for word in argv:
        flag = word.partition("=")[0]
        if flag == "--":
            return
        if flag.startswith("--") and flag not in known:
            guess = _guess(flag, known)
            raise UserError(f"unknown flag {flag}{guess or f'; {command} knows: ' + ', '.join(known)}")


def _with_dashes(argv: Sequence[str]) -> list[str]:
    """The arguments with dashes for underscores in the names of flags; values stay as they are."""
    spelled: list[str] = []
    for i, word in enumerate(argv):
        if word == "--":
            return spelled + list(argv[i:])
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            word = name.replace("_", "-") + equals + value
        spelled.append(word)
    return spelled


def _guess(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f", did you mean {close[0]}?" if close else ""


def _is_users_mistake(error: Exception) -> bool:
    # Looked up, not imported: importing the arena is slow, and an ArenaError can only come from an imported arena.
    arena_errors = sys.modules.get("arena.errors")
    return isinstance(error, UserError) or (arena_errors is not None and isinstance(error, arena_errors.ArenaError))


def _missing(package: str) -> str:
    """What to do about a package that this interpreter does not have."""
    if not (ROOT / SETUP).is_file():
        advice = "install the wheel of this program again, with its dependencies"
    elif Path(sys.prefix).resolve() == ROOT / ".venv":
        advice = f"repair .venv: {interpreter()} -m pip install -r {ROOT / 'requirements.lock'}"
    else:
        here = "" if Path.cwd() == ROOT else f"in {ROOT}: "
        advice = f"{here}run {TRAIN} --help, which sets up .venv, then: {ACTIVATE}"
    return f"the package {package} is missing in {interpreter()}; {advice}"


def _version() -> str:
    """Versions of the program and of the packages that change results; the commit in a checkout."""
    from marl.compute import machine
    from marl.storage.run_folder import git_state

    versions = machine.versions(("torch", "numba"))
    packages = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    state = git_state()
    commit = f", commit {state['commit'][:12]}{' with changes' if state['dirty'] else ''}" if state else ""
    return f"snakes-3v3 {marl.__version__}{commit}\n{packages}"


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines: list[str] = []
    others = [name for name in COMMANDS if name not in chain(*GROUPS.values())]
    for title, names in {**GROUPS, "Others": others}.items():
        lines += [f"{title}:", *(f"  {name:{width}}  {COMMANDS[name][1]}" for name in names)] if names else []
    examples = [(example(*line.split()), text) for line, text in FIRST_STEPS.items()]
    column = max(len(words) for words, _ in examples)
    short = [f"({SCRIPT}: short for {program()}, and there with `{ACTIVATE}`)"] if is_long() else []
    return "\n".join(
        [
            f"usage: {program()} COMMAND [flags]",
            "",
            "3v3 Snake: train teams, let them play, look at the matches.",
            "",
            *lines,
            "",
            "First steps (`last` is the run that was started last; run1 or a path names another one):",
            *(f"  {words:{column}}  {text}" for words, text in examples),
            *short,
            "",
            f"{example('COMMAND', '--help')} shows the flags of a command, --version the versions.",
            "Flags may be spelled --like-this or --like_this.",
        ]
    )

"""Short names of runs, for every command that takes a run or a player: `last`, `runs/last`, `run7`, or a run's name.

The names are looked up at each use and kept nowhere: a link `runs/last` would point to nothing after a deletion, and
two trainings that run at the same time would overwrite it. No torch and no Numba at import.
"""

import argparse
from pathlib import Path

from marl.errors import UserError
from marl.storage.run_folder import GROUP, all_runs, newest
from opponents.plan_prefix import split_prefix

RUNS_DIR = "runs"
LAST_RUN = "last"


class NoRunYet(UserError, argparse.ArgumentTypeError):
    """`last` was given, but there is no run. argparse shows the message of an ArgumentTypeError as it is."""


def find_named(text: str, runs_dir: str | Path = RUNS_DIR) -> Path:
    """The path that a text means. A path that exists is taken as it is; a text that means nothing stays a path.

    last, last/checkpoints/best     the run in `runs_dir` that was started last
    DIR/last                        the run in DIR that was started last
    run7, my_run                    the run in `runs_dir` with this number or name
    """
    path = Path(text)
    if path.exists() or not path.parts:
        return path
    for i, part in enumerate(path.parts):
        folder = Path(*path.parts[:i]) if i else Path(runs_dir)
        if part == LAST_RUN and (i == 0 or (folder / GROUP).is_dir()):
            return _last_run(text, folder).joinpath(*path.parts[i + 1 :])
    name, *rest = path.parts
    found = [run for run in all_runs(runs_dir) if run.name == name or run.name.startswith(f"{name}_")]
    exact = [run for run in found if run.name == name]
    is_number = name.startswith("run") and name[3:].isdecimal()
    if exact or (is_number and found):
        return (exact or found)[-1].joinpath(*rest)
    return path


def player_name(text: str) -> str:
    """The name of a player, with the path of a run in place of its short name; the names of players come first."""
    prefix, inner = split_prefix(text)
    if inner != LAST_RUN and (Path(RUNS_DIR) / GROUP / inner).is_dir():
        from opponents.players import is_scripted, listing

        if is_scripted(inner) or inner in dict(listing()):
            return text
    return prefix + (str(find_named(inner)) if inner else inner)


def player_names(text: str) -> list[str]:
    """The names of players in a list like level1,level2; a path that exists may hold a comma."""
    names = [text] if Path(text).exists() else [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of players, like level1,level2")
    return [player_name(name) for name in names]


def _last_run(text: str, runs_dir: Path) -> Path:
    run = newest(runs_dir)
    if run is None:
        raise NoRunYet(f"{text}: there is no run in {runs_dir / GROUP} yet; a training makes one")
    return run

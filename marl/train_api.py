"""Trainings from Python: `train`, and the run that it returns. As good as the command line: the same options, checks,
messages and files.

Options given as Python values become the flags of a command line: the one way in which options are read and checked.
"""

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

from marl import plugins
from marl.analysis.runs import read_summary
from marl.commands.dry_run import check_plan
from marl.commands.train_argv import TrainArgv, list_seeds, parse_train
from marl.commands.train_here import train_here
from marl.commands.train_seeds import first_seed, name_now, seed_run_name, train_seeds
from marl.compute.process_state import process_state_restored
from marl.config.options import Schema, as_key
from marl.config.reader import to_dict
from marl.config.train_config import TrainConfig, read_config
from marl.config.values import NONE_WORDS
from marl.errors import UserError
from marl.metrics.run_metrics import read_lines
from marl.storage.checkpoint import BEST, FOLDER
from marl.storage.run_folder import named
from marl.training.resume_plan import plan_resume

Callback = Callable[[dict[str, Any]], object]
Seeds = str | Iterable[int]
Imports = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True)
class TrainResult(os.PathLike[str]):
    """A run as `train` leaves it. It is a path, so `load`, `play` and `team_env` take it as a player: its best team."""

    path: Path  # the run folder

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def complete(self) -> bool:
        """Whether all its episodes, or all its minutes, are trained and saved; False after a signal or a callback."""
        return read_summary(self.path).has_reached_its_limit

    @property
    def best(self) -> Path | None:
        """The checkpoint with the most points in an evaluation, a player; None before the first one."""
        best = self.path / FOLDER / BEST
        return best if best.is_file() else None

    def metrics(self) -> Any:
        """All metrics: a row per log line and per evaluation (`step`: the episode), a column per tag of metrics.jsonl.

        A pandas DataFrame if pandas is installed, else a dictionary of columns: lists, with None for what a row lacks.
        """
        return _table(read_lines(self.path))

    def evaluations(self) -> Any:
        """The evaluations, as a table like `metrics`: episode, points, and for each opponent NAME the win rate in
        column NAME, with its 95 % interval in NAME_low and NAME_high.
        """
        rows = list[dict[str, Any]]()
        for point in read_summary(self.path).evaluations:
            rows.append({"episode": point.episode, "points": point.points})
            for name, rate in point.rates.items():
                low, high = point.intervals[name]
                rows[-1] |= {name: rate, f"{name}_low": low, f"{name}_high": high}
        return _table(rows)

    def resume(self, *, quiet: bool = False, callback: Callback | None = None, **options: Any) -> "TrainResult":
        """Go on with this run, bit by bit where its checkpoint allows it; a complete one needs a higher limit, such as
        max_episodes=20_000. Options are those of `train`.
        """
        return train(resume=self.path, quiet=quiet, callback=callback, **options)


@overload
def train(
    config: str | os.PathLike[str] | None = ...,
    *,
    dry_run: Literal[True],
    seeds: Seeds | None = ...,
    quiet: bool = ...,
    imports: Imports = ...,
    **options: Any,
) -> dict[str, Any]: ...


@overload
def train(
    config: str | os.PathLike[str] | None = ...,
    *,
    seeds: Seeds,
    quiet: bool = ...,
    imports: Imports = ...,
    **options: Any,
) -> list[TrainResult]: ...


@overload
def train(
    config: str | os.PathLike[str] | None = ...,
    *,
    quiet: bool = ...,
    callback: Callback | None = ...,
    imports: Imports = ...,
    **options: Any,
) -> TrainResult: ...


def train(
    config: str | os.PathLike[str] | None = None,
    *,
    seeds: Seeds | None = None,
    dry_run: bool = False,
    quiet: bool = False,
    callback: Callback | None = None,
    imports: Imports = (),
    **options: Any,
) -> Any:
    """Train a team in this process; returns the run, which is a player.

    config      a YAML file or the name of a configuration (`smoke`)
    seeds       `1-10`, or numbers: one training for each, in processes of their own; returns a list of runs
    dry_run     check everything, print what would be done, start nothing; returns the configuration as a dictionary
    quiet       print nothing
    callback    called at each log line and evaluation with a dictionary of plain values: event (`log` or
                `evaluation`), episode, env_steps, seconds, and the metrics by tag; False makes the run save and end
    imports     own code: a module or a .py file, or several; the run remembers it
    options     those of `train --help all`, as Python has them: numbers, lists, a dictionary for a section or for
                shares; one of a section is also written with a point

    Ctrl-C and TERM let the run save, and then reach the caller: KeyboardInterrupt, or the caller's own handler.

    >>> run = train("smoke", algo="ppo", max_episodes=16, eval_matches=2, ppo={"lr": 1e-3}, body=[16, 16])
    >>> run.complete, (run.path / "config.yaml").is_file()
    (True, True)
    """
    words = ([] if config is None else ["--config", os.fspath(config)]) + as_flags(options)
    own_code = [imports] if isinstance(imports, (str, os.PathLike)) else imports
    words += [f"{plugins.FLAG}={os.fspath(each)}" for each in own_code]
    if dry_run:
        return _check(_with_seeds(words, seeds), quiet)
    if seeds is not None:
        if callback is not None:
            raise UserError("callback does not go with seeds, which train in processes of their own; train one by one")
        return _train_seeds(_with_seeds(words, seeds), quiet)
    end = train_here(replace(plan_resume(words), quiet=quiet, callback=callback))
    if end.signal:
        _pass_on(end.signal)
    if end.folder is None or 0 < end.code < 128:  # above: a signal, after which the run is saved
        raise RuntimeError(f"training ended with exit code {end.code}")
    return TrainResult(end.folder)


def _with_seeds(words: Sequence[str], seeds: Seeds | None) -> TrainArgv:
    text = seeds if seeds is None or isinstance(seeds, str) else ",".join(map(str, seeds))
    return parse_train([*words, *([] if text is None else [f"--seeds={text}"])])


def _check(argv: TrainArgv, quiet: bool) -> dict[str, Any]:
    """A dry run; returns the configuration that the training would have, the first one of several seeds."""
    argv = first_seed(argv) if argv.seeds else argv
    with process_state_restored():
        checked = check_plan(argv, plan_resume(argv.training))
    if checked is None:
        return {}
    if not quiet:
        print("\n".join(checked.lines))
    return to_dict(checked.config)


def _train_seeds(argv: TrainArgv, quiet: bool) -> list[TrainResult]:
    """Train the seeds in processes of their own; returns their runs, in the order of the seeds."""
    config = read_config(argv.training)
    name = config.run_name or name_now(config)
    argv = argv if config.run_name else argv.with_flags("--run-name", name)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere) if quiet else nullcontext():
        code = train_seeds(argv)
    if code > 128:
        _pass_on(code - 128)
    runs = [TrainResult(named(config.runs_dir, seed_run_name(name, seed))) for seed in argv.seeds]
    failed = [seed for seed, run in zip(argv.seeds, runs, strict=True) if not run.complete]
    if failed and code < 128:
        raise RuntimeError(f"seeds {list_seeds(failed)} failed; their logs: {runs[0].path.parent}")
    return runs


def _pass_on(number: int) -> None:
    """Let a signal that came during the training reach the caller: its own handler, KeyboardInterrupt, or the end."""
    if signal.getsignal(number) is signal.SIG_DFL:
        raise SystemExit(128 + number)  # not the signal itself: `finally` and `with` of the caller are to run
    signal.raise_signal(number)


def _table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The rows as a DataFrame, or without pandas as a dictionary of columns."""
    try:
        import pandas
    except ImportError:
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}
    return pandas.DataFrame(list(rows))


def as_flags(options: Mapping[str, Any]) -> list[str]:
    """Flags for options by name: numbers, texts, paths, lists, tuples, and a dictionary for a section or for shares.

    >>> as_flags({"body": [32, 32], "ppo": {"lr": 1e-3}, "opponents": {"level3": 0.4}, "max_minutes": 2})
    ['--body=32,32', '--ppo.lr=0.001', '--opponents=level3:0.4', '--max_minutes=2']
    """
    sections = Schema(TrainConfig).sections
    return [f"--{name}={_text(name, value)}" for name, value in _leaves(options, sections)]


def _leaves(options: Mapping[str, Any], sections: Mapping[str, type], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Options by path: those in the dictionary of a section with the section's name before theirs."""
    for name, value in options.items():
        if isinstance(value, Mapping) and as_key(f"{prefix}{name}") in sections:
            yield from _leaves(value, sections, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _text(name: str, value: Any) -> str:
    """The value as a flag has it."""
    if hasattr(value, "tolist"):  # numbers and arrays of numpy and torch
        value = value.tolist()
    if value is None:
        return NONE_WORDS[0]
    if isinstance(value, Mapping):
        value = [f"{_text(name, key)}:{_text(name, each)}" for key, each in value.items()]
    if not isinstance(value, (list, tuple)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    items = [_text(name, item) for item in value]
    for item in items:
        if "," in item:
            raise UserError(f"{name}: {item!r} holds a comma, which separates items; write the list in a YAML file")
    return ",".join(items)

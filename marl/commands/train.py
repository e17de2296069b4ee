"""snakes train: train a team, in this process or in many ranks."""

import dataclasses
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from arena.errors import ArenaError
from marl.arguments import parse_whole_number
from marl.config import reader
from marl.config.help import help_text
from marl.config.train_config import ALIASES, PREFER, TrainConfig, read_config
from marl.errors import UserError
from marl.ranks import environment
from marl.storage import relaunch, run_folder

if TYPE_CHECKING:
    from marl.ranks.process_group import Ranks, Solo
    from marl.storage.checkpoint import Checkpoint
    from marl.training.trainer import Trainer

HELP = """usage: snakes train [--config FILE] [flags]

Train a team of three snakes. Without flags: good defaults for this machine.

Ranks (or by torchrun -m marl train ..., which needs none of these):
  --distributed               start one rank per GPU, else one per two cores; NPROC=N fixes the number
  --num_gpus N                start N ranks on N GPUs
  --nnodes N --node_rank K    several machines, or 1:4 if they may come and go; also NNODES and NODE_RANK
  --master_addr A             address of machine 0; also MASTER_ADDR
  --master_port P             a port that is free there; also MASTER_PORT
  --max_restarts N            start all ranks again if one fails, this often

--config FILE reads a YAML file; flags count more than the file, a later file more than an earlier one.
"""
# Flags of the launcher: whether each takes a value.
LAUNCH = {
    "distributed": False, "num_gpus": True, "nnodes": True, "node_rank": True,
    "master_addr": True, "master_port": True, "max_restarts": True,
}  # fmt: skip
AS_RESTARTED = {"load_model": False, "load_model_run": None, "load_model_run_episode": None, "resume": "auto"}
SAME_SIGNAL = 1.0  # seconds within which a second signal is the first one once more: launchers repeat it


def run_words(words: Sequence[str]) -> int:
    """Train as the words of the command line say."""
    if any(word in ("-h", "--help") for word in words):
        print(HELP + "\n" + help_text(TrainConfig, ALIASES, PREFER))
        return 0
    try:
        asked, words = _split(words)
        config = read_config(words)
        source = _source(config)
        if relaunch.launcher() is None:  # else it may be started again, and that was there before
            _check_there(config)
        config = _configuration(words, source)
        if asked and not environment.is_rank():
            return _launch(asked, words, config)
        return _train(config, source, list(words))
    except (UserError, ArenaError):
        if not environment.is_first_on_node():  # every rank of a node finds the same mistake; one tells it
            return 2
        raise


# --- before there are ranks


def _split(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The launcher's flags, and all the others."""
    asked, others, rest = {}, [], list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--") or name not in LAUNCH:
            others.append(word)
        elif not LAUNCH[name]:
            asked[name] = ""
        elif equals or (rest and not rest[0].startswith("--")):
            asked[name] = value if equals else rest.pop(0)
        else:
            raise UserError(f"--{name} needs a value (see snakes train --help)")
    return asked, others


def _configuration(words: Sequence[str], source: Path | None) -> TrainConfig:
    """That of the run to go on from, changed by the words. source: a run or checkpoint folder."""
    run = source and _run_of(source)
    return read_config(words) if run is None else read_config(words, run / run_folder.CONFIG)


def _run_of(source: Path) -> Path | None:
    """The run that a run folder, or a checkpoint's folder in it, belongs to."""
    return next((folder for folder in (source, *source.parents) if (folder / run_folder.CONFIG).is_file()), None)


def _source(config: TrainConfig) -> Path | None:
    if config.load_model:
        number = config.load_model_run
        run = run_folder.newest(config.runs_dir) if number is None else run_folder.find_run(config.runs_dir, number)
        if run is None:
            raise UserError(f"--load_model: there is no run in {Path(config.runs_dir) / run_folder.GROUP}")
        return run
    if config.resume == "never":
        return None
    if config.resume != "auto":
        return Path(config.resume)
    named = run_folder.newest(config.runs_dir, config.run_name) if config.run_name else None
    # A run that was stopped before its first checkpoint starts afresh in its folder.
    return None if named is None or _is_new(named) else named


def _check_there(config: TrainConfig) -> None:
    if config.resume not in ("auto", "never") and not Path(config.resume).exists():
        raise UserError(f"--resume {config.resume}: there is no such run or checkpoint; or give auto or never")


def _is_new(run: Path) -> bool:
    """Whether a folder is made and claimed for a run, but nobody has described a run there yet."""
    return not ((run / run_folder.CONFIG).exists() or (run / "checkpoints").exists())


def _launch(asked: dict[str, str], words: list[str], config: TrainConfig) -> int:
    """Start the ranks that were asked for; one alone runs right here."""
    import torch

    from marl.machine import processor
    from marl.ranks.launch import launch
    from marl.ranks.nodes import choose_ranks_per_node, read_nodes

    names = {"nnodes": "NNODES", "node_rank": "NODE_RANK", "master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT"}
    variables = os.environ | {names[name]: value for name, value in asked.items() if name in names}
    numbers = {name: _whole(asked, name) for name in ("num_gpus", "max_restarts")}
    gpus = 0 if config.device == "cpu" else torch.cuda.device_count()
    ranks = choose_ranks_per_node(variables, processor()["cores"], gpus, numbers["num_gpus"])
    nodes = read_nodes(variables)
    restarts = numbers["max_restarts"] or 0
    if ranks == 1 and nodes.nnodes == (1, 1) and not restarts:
        return _train(config, _source(config), words)
    return launch(words, ranks, nodes, max_restarts=restarts, timeout=config.ddp.timeout)


def _whole(asked: dict[str, str], name: str) -> int | None:
    if name not in asked:
        return None
    number = parse_whole_number(asked[name])
    if number is None:
        raise UserError(f"--{name} {asked[name]}: a whole number is needed")
    return number


# --- in a rank


def _train(config: TrainConfig, source: Path | None, words: list[str]) -> int:
    from marl.ranks.exits import EXIT_LOST_RANK, EXIT_TOGETHER, LostRank
    from marl.ranks.lost_rank import explain, leave
    from marl.ranks.placement import set_nccl_defaults
    from marl.ranks.startup import start
    from marl.ranks.sync_check import OutOfSync
    from marl.training.trainer import NotFinite

    settings = set_nccl_defaults()
    try:
        group = start(config.ddp.backend, config.ddp.timeout, config.device)
    except LostRank as error:
        print(f"snakes: {error}", file=sys.stderr)
        return EXIT_LOST_RANK
    try:
        code = _in_group(config, source, words, group, settings)
        group.close()
        return code
    except (UserError, ArenaError):  # on all ranks alike
        group.close()
        raise
    except (NotFinite, OutOfSync) as error:  # these too
        if group.is_main:
            print(f"snakes: {error}", file=sys.stderr)
        group.close()
        return 1 if group.backend is None else EXIT_TOGETHER
    except LostRank as error:
        leave(error, group)
    except RuntimeError as error:
        lost = explain(error, group)
        if lost is None:
            raise
        leave(lost, group)


def _in_group(
    config: TrainConfig, source: Path | None, words: list[str], group: "Solo | Ranks", settings: dict[str, str]
) -> int:
    import torch

    from marl.compute.onednn import choose_onednn
    from marl.config import autoscale
    from marl.ranks.process_group import on_main
    from marl.storage.saved_player import load_player
    from marl.training.console import Quiet
    from marl.training.metrics import Silent
    from marl.training.report import banner, summarise
    from marl.training.trainer import Trainer
    from opponents.players import find

    again = relaunch.find(_candidates(config, source), group)
    launchers = group.gather(relaunch.launcher())
    if again:
        source = again.run if again.is_saved else again.source
        config = _configuration(words, source)
        if again.is_saved:
            config = dataclasses.replace(config, **AS_RESTARTED)
    else:
        _check_there(config)
    sharing = environment.ranks_on_this_node()
    config = on_main(group, lambda: autoscale.resolve(config, group.device, sharing, group.world))
    for name in config.evaluation.eval_opponents:
        find(name, load_player).close()  # one that is not there is told now, not when it is to play
    resumed = _resumed(config, source, group)
    onednn = None
    if group.device.type == "cpu":
        before = resumed.part("state").get("onednn") if resumed else None  # rounds otherwise: stays as it was
        onednn = on_main(group, lambda: choose_onednn(config, before))
        torch.backends.mkldnn.enabled = onednn
    # Nothing is written up to here: whatever does not fit leaves the run that was to go on as it is.
    trainer = Trainer(config, group, Path(), Silent(), Quiet(), resumed)
    if resumed:
        told = _check_unfinished(trainer, resumed)
        if told:
            if group.is_main:
                print(told)
            return 0

    def opened() -> Path:
        start = run_folder.about_start(["snakes", "train", *words], group.world)
        folder = again.run if again else _folder(config, source)
        # At once: ranks that are started again find the folder by what it says of itself.
        start["launch"] = relaunch.describe(folder, source, again, launchers)
        run_folder.describe(folder, reader.to_dict(config), start)
        _open(trainer, folder, resumed is not None)
        return folder

    trainer.folder = on_main(group, opened)
    with trainer.console:
        trainer.console.banner(banner(trainer, resumed, onednn, settings))
        with _stopping(trainer):
            began = time.perf_counter()
            ended = trainer.run()
        if group.is_main:
            summarise(trainer, ended, time.perf_counter() - began)
    trainer.metrics.close()
    return 128 + (trainer.stop_signal or signal.SIGTERM) if ended == "signal" else 0


def _resumed(config: TrainConfig, source: Path | None, group: "Solo | Ranks") -> "Checkpoint | None":
    """The checkpoint to go on from. Rank 0 looks for it and checks it, the others read the same."""
    from marl.ranks.process_group import on_main
    from marl.storage import checkpoint_finder

    if source is None:
        return None
    found: list[Checkpoint | None] = []

    def look() -> str | None:
        found.append(_checkpoint(config, source))
        return str(found[0].path) if found[0] else None

    path = on_main(group, look)
    if path is None:
        return None
    return found[0] if found else checkpoint_finder.load(path, verify=False)


def _checkpoint(config: TrainConfig, source: Path) -> "Checkpoint | None":
    from marl.storage import checkpoint_finder
    from marl.storage.checkpoint import FOLDER

    if config.load_model and config.load_model_run_episode is not None:
        return checkpoint_finder.load(checkpoint_finder.find_episode(source, config.load_model_run_episode))
    if (source / run_folder.CONFIG).is_file() and not config.load_model and checkpoint_finder.is_unsaved(source):
        return None  # a run that was stopped before its first checkpoint, or while it was written
    if (source / FOLDER).is_dir():
        return checkpoint_finder.load_newest(source)
    return checkpoint_finder.load(source)


def _check_unfinished(trainer: "Trainer", resumed: "Checkpoint") -> str:
    """What to tell of a run that is at its end and closed: a mistake of whoever asks for more of it, but no reason to
    fail for a start that goes on by itself, after a kill or queued again."""
    progress, ended = trainer.progress, trainer.over()
    told = {
        "": "",
        "max_episodes": f"{resumed.path} has all its {progress.episodes} episodes; "
        f"train on with --max_episodes above {progress.episodes}",
        "max_minutes": f"{resumed.path} has had its {progress.seconds / 60:.3g} minutes; "
        "train on with a higher --max_minutes",
    }[ended]
    config, closed = trainer.config, resumed.part("state")["closed"]
    if told and (config.load_model or (closed and config.resume not in ("auto", "never"))):
        raise UserError(told)
    return told if closed else ""


def _candidates(config: TrainConfig, source: Path | None) -> list[Path]:
    """Runs that this launch may have begun."""
    run = source and _run_of(source)
    return [*run_folder.all_runs(config.runs_dir), *([run] if run else [])]


def _open(trainer: "Trainer", folder: Path, goes_on: bool) -> None:
    """Rank 0: what the run writes in its folder and on the screen while it goes on."""
    from marl.training.console import Console
    from marl.training.metrics import Metrics

    config, episode = trainer.config, trainer.progress.episodes
    trainer.metrics = Metrics(folder, episode if goes_on else None, run_folder.GROUP if config.wandb else None)
    trainer.console = Console(config.schedule.max_episodes, episode)


def _folder(config: TrainConfig, source: Path | None) -> Path:
    """The run's folder: that of the run that goes on, or a new one."""
    if source is not None and not config.load_model:
        run = _run_of(source)
        if run is not None:
            return run
    named = run_folder.newest(config.runs_dir, config.run_name) if config.run_name else None
    return named if named and _is_new(named) else run_folder.create(config.runs_dir, config.run_name)


@contextmanager
def _stopping(trainer: "Trainer") -> Iterator[None]:
    """The first TERM or Ctrl-C makes the run save and end; a second one, later, ends it at once."""
    first: list[float] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if first and time.monotonic() - first[0] > SAME_SIGNAL:
            os._exit(128 + number)
        if not first:
            first.append(time.monotonic())
            trainer.stop_signal = number

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

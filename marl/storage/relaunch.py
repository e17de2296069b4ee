"""Relaunch: ranks that are started again by the same launch find its run, and resume from the checkpoints in it.

A launch is identified by its launcher processes, one per node (train_ddp.sh or torchrun). A launcher keeps running when
its ranks are started again. Nodes may leave and join, but at least one launcher stays. run.json in the run's folder
names the launchers.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from marl.compute.process_identity import process_name
from marl.ranks import environment
from marl.storage import run_folder

if TYPE_CHECKING:
    from marl.ranks.process_group import Ranks, Solo


class LaunchRecord(NamedTuple):
    """The run of an earlier start of this launch."""

    run: Path
    saves: int  # how often the run had been saved before the launch
    source: Path | None  # run or checkpoint to resume from until this launch has saved one itself
    is_saved: bool = False  # whether this launch has saved a checkpoint


def launcher() -> str | None:
    """A name for the process that has started this rank, unique over machines and time; None without a launcher."""
    launch_id = environment.launch_id()
    if launch_id is None:  # a shell, say, in which somebody starts one training after the other
        return None
    return process_name(os.getppid(), unknown_start=launch_id)


def find(folders: Iterable[Path], group: "Solo | Ranks") -> LaunchRecord | None:
    """The record of this launch in one of these runs. All ranks call it: ranks of a new node cannot find it alone."""
    mine = launcher()
    if mine is None:
        return None
    looks = environment.is_first_on_node()  # one rank of a node is enough
    found = next((record for folder in folders if looks and (record := _read_record(folder, mine))), None)
    records = group.gather(found) or ()
    return group.broadcast(next((record for record in records if record), None))


def _read_record(folder: Path, mine: str) -> LaunchRecord | None:
    from marl.storage.checkpoint_finder import count_saves

    launch = run_folder.read_run(folder).get("launch")
    if not isinstance(launch, dict) or mine not in launch["launchers"]:
        return None
    saves, source = launch["saves"], launch["source"]
    return LaunchRecord(folder, saves, source and Path(source), count_saves(folder) > saves)


def describe(
    run: Path, source: Path | None, earlier: LaunchRecord | None, launchers: Iterable[str | None]
) -> dict | None:
    """The field `launch` of run.json: the launchers, and what a relaunch needs; None without a launcher."""
    from marl.storage.checkpoint_finder import count_saves

    known = sorted({each for each in launchers if each})
    record = earlier or LaunchRecord(run, count_saves(run), source)
    fields = {"saves": record.saves, "source": record.source and str(record.source)}
    return {"launchers": known, **fields} if known else None

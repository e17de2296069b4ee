"""The run that a launch has begun: ranks that are started again find it, and go on from what they have saved there.

A launch is known by the processes that start its ranks, one per node: those of train_ddp.sh or torchrun. They stay when
ranks are started again; of several nodes some may go and others come, but one stays. The run's folder names them.
"""

import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from marl.ranks import environment
from marl.storage import run_folder

if TYPE_CHECKING:
    from marl.ranks.process_group import Ranks, Solo


class Begun(NamedTuple):
    """What an earlier start of this launch has found or made."""

    run: Path
    saves: int  # how often that run was saved before
    source: Path | None  # what to go on from until it is saved again
    is_saved: bool = False  # whether it is


def launcher() -> str | None:
    """The process that has started this rank, by a name that no other ever has; None if no launcher has."""
    launch_id = environment.launch_id()
    if launch_id is None:  # a shell, say, in which somebody starts one training after the other
        return None
    pid = os.getppid()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        since = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]  # in ticks from the boot
    except OSError:  # not Linux
        boot, since = "", launch_id
    return f"{socket.gethostname()} {boot} {pid} {since}"


def find(folders: Iterable[Path], group: "Solo | Ranks") -> Begun | None:
    """Which of these runs this launch has begun. All ranks call it: one that has just come does not know by itself."""
    mine = launcher()
    if mine is None:
        return None
    looks = environment.is_first_on_node()  # one rank of a node is enough
    found = next((begun for folder in folders if looks and (begun := _begun(folder, mine))), None)
    everyone = group.gather(found) or ()
    return group.share(next((begun for begun in everyone if begun), None))


def _begun(folder: Path, mine: str) -> Begun | None:
    from marl.storage import checkpoint

    launch = run_folder.read_run(folder).get("launch")
    if not isinstance(launch, dict) or mine not in launch["launchers"]:
        return None
    saves, source = launch["saves"], launch["source"]
    return Begun(folder, saves, source and Path(source), checkpoint.saves(folder) > saves)


def describe(run: Path, source: Path | None, again: Begun | None, launchers: Iterable[str | None]) -> dict | None:
    """For the run's description: by whom it is found again, and what is told then; None without a launcher."""
    from marl.storage import checkpoint

    known = sorted({each for each in launchers if each})
    begun = again or Begun(run, checkpoint.saves(run), source)
    told = {"saves": begun.saves, "source": begun.source and str(begun.source)}
    return {"launchers": known, **told} if known else None

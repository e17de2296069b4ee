"""The team against what it was: frozen copies of the policy that play in fixed places of the rollout.

A pool keeps past selves as snapshots, in memory and in the run folder. Between log lines some of them play, one in each
place: who, is drawn by the schedule, hard ones more often. The same on all ranks.
"""

import copy
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from arena.rng import NUMBER_PAST_SELVES, draw, match_key
from arena.rules import TURNS
from marl.compute.precision import Precision
from marl.learners.learner import Learner
from marl.networks.policy import describe_actor
from marl.rollout.frozen_seats import FrozenSeats
from marl.rollout.rollout import Rollout
from marl.storage import snapshot
from marl.storage.checkpoint import CheckpointError, read_part
from marl.storage.checkpoint_finder import episode_of, list_all
from marl.storage.saver import on_host
from opponents.scheduler import Scheduler

FOLDER, PREFIX = "past_selves", "past_"
STAY = 4 * TURNS  # turns that a past self plays at the least: the matches that it finds begun do not count
ONE = 2**32


class PastSelves:
    """The pool, and who of it plays."""

    def __init__(
        self,
        rollout: Rollout,
        learner: Learner,
        precision: Precision,
        scheduler: Scheduler,
        seed: int,
    ) -> None:
        self._learner, self._scheduler, self._rollout = learner, scheduler, rollout
        self._key = int(match_key(seed, NUMBER_PAST_SELVES))
        self._pool: dict[str, dict[str, torch.Tensor]] = {}
        self._unwritten: set[str] = set()
        self._chosen_at: tuple[int, int] | None = None  # turn and episode at which those who play were drawn
        frozen = (copy.deepcopy(learner.actor).requires_grad_(False) for _ in rollout.past_self_seats)
        self.frozen = [
            FrozenSeats(actor, rollout, seats, precision)
            for actor, seats in zip(frozen, rollout.past_self_seats, strict=True)
        ]
        self.names = [""] * len(self.frozen)

    def renew(self, turn: int, episode: int, interval: int) -> bool:
        """Draw anew who plays, unless that was just done; the team joins if an interval of episodes has passed.

        Says whether it was done.
        """
        if not self.frozen or (self._chosen_at is not None and turn - self._chosen_at[0] < STAY):
            return False
        if self._chosen_at is None or episode // interval != self._chosen_at[1] // interval:
            self.join(episode)
        self.choose(episode)
        self._chosen_at = turn, episode
        return True

    def join(self, episode: int) -> None:
        """The team as it is now becomes one of the pool."""
        name = f"{PREFIX}{episode}"
        if name in self._pool:
            return
        self._pool[name] = on_host(dict(self._learner.actor.state_dict()))
        self._unwritten.add(name)
        left = self._scheduler.add_past_self(name)
        if left is not None:
            del self._pool[left]

    def write(self, run: Path) -> None:
        """Write the snapshots that the run folder lacks. Those that left the pool stay, see remove_unneeded."""
        if self._pool:
            (run / FOLDER).mkdir(exist_ok=True)
        for name, weights in self._pool.items():
            path = _path(run, name)
            if name in self._unwritten or not path.exists():
                snapshot.write(path, weights, describe_actor(self._learner.encoder, self._learner.spec))
        self._unwritten.clear()

    def choose(self, episode: int) -> None:
        """Draw who plays from now on."""
        mix = self._scheduler.mix(episode)
        shares = {name: mix.get(name, 0.0) for name in self._pool}
        total = sum(shares.values()) or 1.0
        for place in range(len(self.frozen)):
            left = draw(self._key, episode, place) / ONE * total
            chosen = next(reversed(shares))
            for name, share in shares.items():
                left -= share
                if left < 0:
                    chosen = name
                    break
            self._take(place, chosen)

    def _take(self, place: int, name: str) -> None:
        if self.names[place] != name:
            self.names[place] = name
            self.frozen[place].actor.load_state_dict(self._pool[name])  # recorded graphs go on with these weights
            self._rollout.void_matches(place)

    def state_dict(self) -> dict[str, Any]:
        """Who plays; the pool itself is in the run folder."""
        return {"names": list(self.names), "pool": list(self._pool), "chosen_at": list(self._chosen_at or ())}

    def load_state_dict(self, state: dict[str, Any], pool: dict[str, dict[str, torch.Tensor]]) -> None:
        """Go on with this pool, and with the ones who played."""
        self._pool = pool
        self._chosen_at = tuple(state["chosen_at"]) or None
        for place, name in enumerate(state["names"][: len(self.frozen)]):
            if name:
                self.names[place] = name
                self.frozen[place].actor.load_state_dict(pool[name])


def read_pool(run: Path, names: list[str]) -> dict[str, dict[str, torch.Tensor]]:
    """Past selves from the folder of a run."""
    return {name: dict(snapshot.read(_path(run, name)).actor.state_dict()) for name in names}


def remove_unneeded(run: Path, episode: int) -> None:
    """Remove the snapshots that no checkpoint of the run needs; `episode` is that of the newest checkpoint.

    Safe while training goes on: every past self of the present pool is named by the newest checkpoint, or has joined
    later, at this episode or after it; such snapshots stay. If a checkpoint cannot be read, all snapshots stay.
    """
    checkpoints = list_all(run)
    if episode not in map(episode_of, checkpoints):  # the folder cannot be listed
        return
    try:
        needed = {name for checkpoint in checkpoints for name in _pool_of(checkpoint)}
    except CheckpointError:
        return
    for path in (run / FOLDER).glob(f"{PREFIX}*{snapshot.SUFFIX}"):
        number = path.stem.removeprefix(PREFIX)
        if number.isdecimal() and int(number) < episode and path.stem not in needed:
            with suppress(OSError):  # the file stays until the next call
                path.unlink()


def _pool_of(checkpoint: Path) -> list[str]:
    # mmap: only these names are read, not the tensors of the optimizers.
    return read_part(checkpoint, "state", mmap=True).get("past_selves", {}).get("pool", [])


def _path(run: Path, name: str) -> Path:
    return run / FOLDER / (name + snapshot.SUFFIX)

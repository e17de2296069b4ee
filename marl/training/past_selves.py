"""Past selves: frozen copies of the policy that play against the team, in fixed seats of the rollout.

A pool keeps past selves as snapshots, in memory and in the run folder. At log lines the players are drawn from the
pool, one for each set of frozen seats; hard opponents are drawn more often. The draws are the same on all ranks.
"""

import copy
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from arena.rng import DRAW_RANGE, NUMBER_PAST_SELVES, draw, match_key
from arena.rules import TURNS
from marl.learners.learner import Learner
from marl.learners.precision import Precision
from marl.networks.policy import describe_actor
from marl.rollout.frozen_seats import FrozenSeats
from marl.rollout.rollout import Rollout
from marl.storage import snapshot
from marl.storage.checkpoint import CheckpointError, read_manifest, read_part
from marl.storage.checkpoint_finder import episode_of, list_all
from marl.storage.saver import on_host
from marl.training.progress import crosses_multiple
from opponents.scheduler import Scheduler

FOLDER, PREFIX = "past_selves", "past_"
POOL = "past_selves"  # field of a checkpoint's manifest: the names of the pool
STAY = 4 * TURNS  # turns that a past self plays at least: matches that had begun before do not count


class PastSelves:
    """The pool, and the players drawn from it."""

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
        self._chosen_at: tuple[int, int] | None = None  # turn and episode of the last draw of players
        frozen = (copy.deepcopy(learner.actor).requires_grad_(False) for _ in rollout.past_self_seats)
        self.frozen = [
            FrozenSeats(actor, rollout, seats, precision, None, learner.greedy)
            for actor, seats in zip(frozen, rollout.past_self_seats, strict=True)
        ]
        self.names = [""] * len(self.frozen)  # of the players; empty before the first draw

    @property
    def pool(self) -> Mapping[str, dict[str, torch.Tensor]]:
        """Weights of the past selves, by name."""
        return self._pool

    def renew(self, turn: int, episode: int, interval: int) -> bool:
        """Draw new players if the present ones have stayed long enough; returns whether they were drawn.

        Before the draw the team joins the pool, if the episodes have passed a multiple of the interval.
        """
        if not self.frozen or (self._chosen_at is not None and turn - self._chosen_at[0] < STAY):
            return False
        if self._chosen_at is None or crosses_multiple(interval, self._chosen_at[1], episode):
            self.join(episode)
        self.choose(episode)
        self._chosen_at = turn, episode
        return True

    def join(self, episode: int) -> None:
        """Add a copy of the present team to the pool; a full pool drops another past self."""
        name = f"{PREFIX}{episode}"
        if name in self._pool:
            return
        self._pool[name] = on_host(dict(self._learner.actor.state_dict()))
        self._unwritten.add(name)
        dropped = self._scheduler.add_past_self(name)
        if dropped is not None:
            del self._pool[dropped]

    def write(self, run: Path) -> None:
        """Write the snapshots that the run folder lacks. Those dropped from the pool stay, see remove_unneeded."""
        if self._pool:
            (run / FOLDER).mkdir(exist_ok=True)
        for name, weights in self._pool.items():
            path = _path(run, name)
            if name in self._unwritten or not path.exists():
                snapshot.write(path, weights, describe_actor(self._learner.encoder, self._learner.spec))
        self._unwritten.clear()

    def choose(self, episode: int) -> None:
        """Draw the players, in proportion to the schedule's mix."""
        mix = self._scheduler.mix(episode)
        weights = {name: mix.get(name, 0.0) for name in self._pool}
        total = sum(weights.values()) or 1.0
        for i in range(len(self.frozen)):
            left = draw(self._key, episode, i) / DRAW_RANGE * total
            chosen = next(reversed(weights))
            for name, weight in weights.items():
                left -= weight
                if left < 0:
                    chosen = name
                    break
            self._seat(i, chosen)

    def _seat(self, i: int, name: str) -> None:
        """Let a past self of the pool play the frozen seats i."""
        if self.names[i] != name:
            self.names[i] = name
            self.frozen[i].actor.load_state_dict(self._pool[name])  # in place: recorded CUDA graphs use the new weights
            self._rollout.void_matches(i)

    def state_dict(self) -> dict[str, Any]:
        """The names of players and pool; the weights are in the run folder."""
        return {"names": list(self.names), "pool": list(self._pool), "chosen_at": list(self._chosen_at or ())}

    def load_state_dict(self, state: dict[str, Any], pool: dict[str, dict[str, torch.Tensor]]) -> None:
        """Continue with the pool and the players of a checkpoint."""
        self._pool = pool
        self._chosen_at = tuple(state["chosen_at"]) or None
        for i, name in enumerate(state["names"][: len(self.frozen)]):
            if name:
                self.names[i] = name
                self.frozen[i].actor.load_state_dict(pool[name])


def read_pool(run: Path, names: list[str]) -> dict[str, dict[str, torch.Tensor]]:
    """The weights of past selves, by name, from a run folder."""
    return {name: dict(snapshot.read(_path(run, name)).actor.state_dict()) for name in names}


def remove_unneeded(run: Path, episode: int) -> None:
    """Remove the snapshots that no checkpoint of the run needs; `episode` is that of the newest checkpoint.

    Safe while training goes on: every past self of the present pool is named by the newest checkpoint, or has joined
    later, at this episode or after it; such snapshots stay. If a checkpoint cannot be read, all snapshots stay.
    """
    snapshots = [(path.stem.removeprefix(PREFIX), path) for path in (run / FOLDER).glob(f"{PREFIX}*{snapshot.SUFFIX}")]
    older = [path for number, path in snapshots if number.isdecimal() and int(number) < episode]
    checkpoints = list_all(run) if older else []
    if episode not in map(episode_of, checkpoints):  # nothing to remove, or the folder cannot be listed
        return
    try:
        needed = {name for checkpoint in checkpoints for name in _pool_of(checkpoint)}
    except CheckpointError:
        return
    for path in older:
        if path.stem not in needed:
            with suppress(OSError):  # the file stays until the next call
                path.unlink()


def _pool_of(checkpoint: Path) -> list[str]:
    names = read_manifest(checkpoint).get(POOL)
    if names is None:  # of an earlier version. mmap: the tensors of the optimizers are not read
        names = read_part(checkpoint, "state", mmap=True).get("past_selves", {}).get("pool", [])
    return names


def _path(run: Path, name: str) -> Path:
    return run / FOLDER / (name + snapshot.SUFFIX)

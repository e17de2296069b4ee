"""The named players of the option `opponents`: who plays their seats, and copies of them in the run folder.

Scripted players and policies play inside the batch, also in a CUDA graph. Submissions and players that plan decide on
the host. Policies are read once, by rank 0, and kept in the run folder: a resumed run meets the same ones, whatever has
become of their files.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from marl.config.train_config import TrainConfig
from marl.errors import UserError
from marl.learners.precision import Precision
from marl.metrics.log_window import PAST_SELF
from marl.planning.planned_player import PlannedPlayer, load_player, split_planned
from marl.ranks.process_group import Ranks, Solo, on_main
from marl.rollout.frozen_seats import FrozenSeats, HostSeats
from marl.rollout.rollout import Rollout
from marl.storage import snapshot
from marl.storage.policy_player import PolicyPlayer, policy_player
from marl.storage.saver import on_host
from opponents.plan_prefix import plans, split_prefix
from opponents.players import SUBMISSION, Player, Scripted, find
from opponents.scheduler import LADDER
from opponents.submission import Submission, SubmissionOptions

FOLDER = "opponents"  # in the run folder


class FrozenPolicy(NamedTuple):
    """The policy of a named player, as it was at the start of the run."""

    about: dict[str, Any]  # encoder, network and reward
    weights: dict[str, torch.Tensor]


class ScriptedSeats:
    """The seats of a scripted player."""

    hidden = None

    def __init__(self, play: Callable[[], None]) -> None:
        self.play = play


NamedSeats = ScriptedSeats | FrozenSeats | HostSeats  # each with play() and hidden


class NamedOpponents:
    """The named players of a run, and their seats in this rank's matches."""

    def __init__(
        self,
        config: TrainConfig,
        rollout: Rollout,
        precision: Precision,
        group: Solo | Ranks,
        run: Path | None = None,
    ) -> None:
        """run: folder of the run that is resumed, which has copies of the policies. A collective."""
        self.names, self._run = list(config.schedule.shares), run
        self._policies = on_main(group, lambda: _read_policies(self.names, run)) if self.names else {}
        options = SubmissionOptions(config.evaluation.uncaged)
        self._players = [_player(name, self._policies.get(name), options) for name in self.names]
        self.seats = [
            _seats_of(player, rollout, seats, precision)
            for player, seats in zip(self._players, rollout.named_seats, strict=True)
        ]
        self._reported: set[str] = set()

    @property
    def on_host(self) -> list[str]:
        """Names of the players that decide outside the batch."""
        return [name for name, seats in zip(self.names, self.seats, strict=True) if isinstance(seats, HostSeats)]

    @property
    def has_submissions(self) -> bool:
        """Whether a player has a memory of its own that no checkpoint holds."""
        return any(isinstance(player, Submission) for player in self._players)

    @property
    def labels(self) -> list[str]:
        """A short name of each player for logs: of a path, its last part. The whole name if that means another one."""
        short = [_label(name) for name in self.names]
        taken = [*LADDER, *short]
        return [
            name if label != name and (taken.count(label) > 1 or label.startswith(PAST_SELF)) else label
            for name, label in zip(self.names, short, strict=True)
        ]

    def write(self, run: Path) -> None:
        """Write copies of the policies into the run folder, unless they were read from it."""
        if self._policies:
            (run / FOLDER).mkdir(exist_ok=True)
        for name, policy in self._policies.items():
            path = copy_path(run, name)
            if run != self._run or not path.exists():
                snapshot.write(path, policy.weights, policy.about)

    def warnings(self, matches: Sequence[int]) -> list[str]:
        """Lines about players that slow training down. matches: of each player, on this rank."""
        lines: list[str] = []
        for name, seats, number in zip(self.names, self.seats, matches, strict=True):
            if isinstance(seats, HostSeats):
                how = "in a process per match" if isinstance(seats.player, Submission) else "by planning"
                lines.append(f"{name} decides {how}, on the host, in {number} matches: every turn waits for its moves")
        return lines

    def new_problems(self) -> list[str]:
        """Kinds of problems of submissions that have not been reported yet."""
        found = [kind for player in self._players if isinstance(player, Submission) for kind in player.problem_counts]
        new = [kind for kind in found if kind not in self._reported]
        self._reported.update(new)
        return new

    def close(self) -> None:
        """End the processes of submissions."""
        for player in self._players:
            player.close()


def check_named(config: TrainConfig) -> None:
    """A UserError if a named player cannot play with these settings."""
    planned = [name for name in config.schedule.shares if plans(name)]
    timed = [name for name in planned if split_planned(name)[0].milliseconds is not None]
    if timed:
        raise UserError(f"opponents: {timed[0]} plans by the clock, so that a run could not be repeated; give replies")


def _read_policies(names: Sequence[str], run: Path | None) -> dict[str, FrozenPolicy]:
    """Policy of each name that has one: from the run folder, else from where the name leads."""
    policies = {}
    for name in names:
        if run is not None and copy_path(run, name).exists():
            player: Player = snapshot.read(copy_path(run, name))
        else:
            player = find(name, load_player, SubmissionOptions(uncaged=True))  # a submission is not started here
        policy = player.policy if isinstance(player, PlannedPlayer) else player
        if isinstance(policy, PolicyPlayer):
            policies[name] = FrozenPolicy(policy.about, on_host(dict(policy.actor.state_dict())))
        player.close()
    return policies


def _player(name: str, frozen: FrozenPolicy | None, options: SubmissionOptions) -> Player:
    if frozen is None:
        return find(name, load_player, options)
    policy = policy_player(frozen.about, frozen.weights, name, name)
    if not plans(name):
        return policy
    # A checkpoint does not hold what a planner has learned of its foes: a resumed run would differ.
    return PlannedPlayer(policy, split_planned(name)[0], name, learns_foes=False)


def _seats_of(player: Player, rollout: Rollout, seats: torch.Tensor, precision: Precision) -> NamedSeats:
    if isinstance(player, Scripted):
        return ScriptedSeats(player.bind(rollout.arena, seats, rollout.board_actions))
    if isinstance(player, PolicyPlayer):
        actor = player.actor.to(rollout.arena.device)
        return FrozenSeats(actor, rollout, seats, precision, player.encoder)
    return HostSeats(player, rollout, seats)


def _label(name: str) -> str:
    prefix, inner = split_prefix(name)
    return prefix + Path(inner.removesuffix(f"/{SUBMISSION}")).name


def copy_path(run: Path, name: str) -> Path:
    """The file in a run folder for the policy of a named player: a file for every name, also if it is a path."""
    readable = re.sub(r"[^\w.=-]+", "_", name)[-60:]
    return run / FOLDER / f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}{snapshot.SUFFIX}"

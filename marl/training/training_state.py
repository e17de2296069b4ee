"""The state of a training run on one rank: team, matches, opponents and counters; and the error of one
whose numbers are not finite."""

from collections.abc import Iterable
from pathlib import Path

import torch

from arena.encoders import encoder_named
from arena.rules import TURNS
from marl.config.evaluation_plan import plan_evaluations
from marl.config.train_config import SAVE_EPISODES, SAVE_SECONDS, TrainConfig
from marl.fast.seam import speed_up
from marl.learners.factory import make_assignment, make_learner
from marl.learners.precision import Precision
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.frozen_seats import FrozenSeats
from marl.rollout.rollout import Rollout
from marl.rollout.turn_buffer import TurnBuffer
from marl.training.named_opponents import NamedOpponents
from marl.training.past_selves import PastSelves
from marl.training.progress import Progress, crosses_multiple
from opponents.scheduler import Scheduler

TASKS = ("log", "eval", "save", "milestone")  # periodic, counted in episodes
EVALUATED = "evaluations"  # their number up to now, among the marks
# Rounds of all match slots that are left out when matches start again: those cut off at the start and at the end.
SPARE_ROUNDS = 3
SKIPS_IN_A_ROW = 20  # skipped updates that end a run: fp16 may need this many to find its loss scale
BAD_BATCH = "not_finite.pt"  # file in the run folder with the last minibatch of every rank


class TrainingState:
    """Everything of a run that a checkpoint holds: this rank's part of it. checkpointing.py saves and restores it."""

    def __init__(
        self,
        config: TrainConfig,
        group: Solo | Ranks,
        progress: Progress | None = None,
        run: Path | None = None,
    ) -> None:
        """New networks, and matches numbered from progress.next_match on. A collective: networks are synchronised.

        run: folder of the run that is resumed.
        """
        self.config, self.group, self.device = config, group, group.device
        self.encoder = encoder_named(config.network.encoder)
        self.progress = progress or Progress()
        self.scheduler = Scheduler(config.schedule)
        assignment = make_assignment(config, self.scheduler)
        precision = Precision(config.precision, self.device)
        self.learner = make_learner(config, assignment, group, precision)
        self.rollout = Rollout(
            assignment,
            self.scheduler.reachable(),
            config.reward.weights(),
            self.buffer,
            config.seed,
            group.rank,
            group.world,
            self.progress.next_match,
            self.learner.outputs,
            config.mask_reversal,
        )
        self.learner.attach(self.rollout)
        self.past_selves = PastSelves(self.rollout, self.learner, precision, self.scheduler, config.seed)
        seats = self.rollout.self_play_seats
        self_play = []
        if len(seats):
            self_play = [FrozenSeats(self.learner.actor, self.rollout, seats, precision, None, self.learner.greedy)]
        self.named = NamedOpponents(config, self.rollout, precision, group, run)
        self.frozen_seats = [*self.past_selves.frozen, *self_play, *self.named.seats]
        self.rollout.frozen_players = [frozen.play for frozen in self.frozen_seats]
        self.slow_texts: list[str] = []  # why something runs more slowly than it could; the trainer shows them
        passes = speed_up(self.learner, config, group, self.slow_texts.append)
        if passes is not None:
            self.rollout.bind_turns(passes.bind_policy, passes.overlap)
        self.first = self.progress.copy()  # when the present matches were started
        self.logged = self.progress.copy()  # at the last log line
        self.marks = dict.fromkeys(TASKS, self.progress.episodes)  # episodes when each task was last checked
        self.evaluation_plan = plan_evaluations(config, self.device.type)
        self.marks[EVALUATED] = int(self.evaluation_plan.in_run * self.fraction_done)
        self.saved_at = self.progress.seconds  # when this start began its last checkpoint
        self.until = 1.0  # fraction of the run at which this start pauses
        self.is_resumed = False  # whether a checkpoint has been restored
        self.is_exact = False  # whether its matches and buffer have been restored too
        self.is_milestone = False  # whether a checkpoint of now is one that is always kept
        self.is_closed = False  # whether the checkpoint was saved at the end of its run

    @property
    def buffer(self) -> TurnBuffer:
        return self.learner.buffer

    @property
    def epsilon(self) -> float:
        """Share of random moves at this point of the run."""
        return self.learner.epsilon(self.progress.episodes)

    @property
    def fraction_done(self) -> float:
        """Done fraction of the run, 0 to 1: of its episodes or of its time limit, the larger one."""
        config, progress = self.config, self.progress
        fractions = [progress.episodes / config.schedule.max_episodes]
        if config.max_minutes > 0:
            fractions.append(progress.seconds / (60 * config.max_minutes))
        return min(1.0, max(fractions))

    def limit_reached(self) -> str:
        """The limit that the run has reached: max_episodes, max_minutes, the pause of this start, or empty."""
        config = self.config
        if self.progress.episodes >= config.schedule.max_episodes:
            return "max_episodes"
        if config.max_minutes > 0 and self.progress.seconds >= 60 * config.max_minutes:
            return "max_minutes"
        return "pause" if self.until < 1 and self.fraction_done >= self.until else ""

    def count_turns(self, turns: int) -> None:
        """Count turns that have been played in every match slot."""
        progress, first, all_matches = self.progress, self.first, self.rollout.all_matches
        progress.turns += turns
        progress.env_steps += turns * all_matches
        since_first = progress.turns - first.turns
        progress.episodes = first.episodes + self.rollout.episodes(since_first)
        progress.next_match = first.next_match + all_matches * (since_first // TURNS + SPARE_ROUNDS)

    def is_due(self, task: str, interval: int) -> bool:
        """Whether the episodes have passed a multiple of the interval since the last call for this task."""
        before, self.marks[task] = self.marks[task], self.progress.episodes
        return crosses_multiple(interval, before, self.progress.episodes)

    def is_save_due(self) -> bool:
        """Whether a checkpoint is due since the last call. The same on all ranks: they agree on the time."""
        interval = self.config.save_interval
        if not self.is_due("save", interval or SAVE_EPISODES):
            return False
        return interval is not None or self.progress.seconds >= self.saved_at + SAVE_SECONDS

    def is_evaluation_due(self) -> bool:
        """Whether an evaluation is due since the last call. The same on all ranks: they agree on the time."""
        interval = self.config.evaluation.eval_interval
        if interval is not None:
            return self.is_due("eval", interval)
        before, self.marks[EVALUATED] = self.marks[EVALUATED], int(self.evaluation_plan.in_run * self.fraction_done)
        return self.marks[EVALUATED] > before


class NotFinite(RuntimeError):
    """Gradients or weights are not finite; raised on all ranks."""


def all_finite(tensors: Iterable[torch.Tensor]) -> bool:
    return bool(torch.stack([tensor.isfinite().all() for tensor in tensors]).all())

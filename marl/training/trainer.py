"""The order of things in a training run; no maths.

One cycle plays some turns and makes some updates, on every rank alike. Whatever is decided between cycles (log,
evaluate, save, stop) follows from counters that all ranks share, or is agreed upon by all.
"""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from arena.encoders import encoder_named
from arena.rules import TURNS
from marl.compute.cuda_graphs import DDP_WARM_UPS, WARM_UPS, Captured
from marl.compute.precision import Precision
from marl.config.train_config import TrainConfig
from marl.errors import UserError
from marl.learners.factory import make_assignment, make_learner
from marl.learners.lr_schedule import lr_factor, warmup
from marl.networks import policy
from marl.ranks.process_group import Ranks, Solo, on_main
from marl.rollout.frozen_seats import FrozenSeats
from marl.rollout.rollout import Rollout
from marl.storage.checkpoint import Checkpoint
from marl.storage.saver import Saver, on_host
from marl.training.console import Console, Quiet
from marl.training.evaluation import Evaluation, evaluate
from marl.training.log_window import LogWindow, pack, unpack
from marl.training.metrics import Metrics, Silent, gpu_gauges
from marl.training.past_selves import PastSelves, read_pool, remove_unneeded
from marl.training.stopwatch import Stopwatch
from opponents.scheduler import Scheduler

SKIPS_IN_A_ROW = 20  # as many as fp16 may need to find its scale
BAD_BATCH = "not_finite.pt"
SPARE_MATCHES = 3  # rounds of all slots that a resumed run leaves out: cut off at the start, and going on at the end


class NotFinite(RuntimeError):
    """A loss is no number any more; raised on all ranks alike."""


@dataclass
class Progress:
    """Counters of the whole run, the same on all ranks; all that a schedule depends on."""

    turns: int = 0  # of every match slot, in all processes of this run
    updates: int = 0  # batches learned from, per rank
    env_steps: int = 0  # match-turns of all ranks
    episodes: int = 0  # matches finished by all ranks
    next_match: int = 0  # first match number that is not used yet
    seconds: float = 0.0  # of training, without evaluations and saves
    best: float = -1.0  # points of the best evaluation


class Trainer:
    """A team in training: this rank's part of it."""

    def __init__(
        self,
        config: TrainConfig,
        group: Solo | Ranks,
        folder: Path,
        metrics: Metrics | Silent,
        console: Console | Quiet,
        resumed: Checkpoint | None = None,
    ) -> None:
        self.config, self.group, self.folder, self.metrics, self.console = config, group, folder, metrics, console
        self.device = group.device
        self.encoder = encoder_named(config.network.encoder)
        state = resumed.part("state") if resumed else None
        self.progress = Progress(**state["progress"]) if state else Progress()
        if config.load_model:
            self.progress.best = Progress.best  # of another run
        self.scheduler = Scheduler(config.schedule)
        assignment = make_assignment(config, self.scheduler)
        precision = Precision(config.precision, self.device)
        self.learner = make_learner(config, assignment, group, precision)
        self.buffer = self.learner.buffer
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
        self.past = PastSelves(self.rollout, self.learner, precision, self.scheduler, config.seed)
        seats = self.rollout.self_play_seats
        myself = [FrozenSeats(self.learner.actor, self.rollout, seats, precision)] if len(seats) else []
        self._frozen = [*self.past.frozen, *myself]
        self.rollout.frozen_players = [frozen.play for frozen in self._frozen]
        self.exact = False  # whether matches and buffer go on as well
        if state:
            self._take_over(resumed, state)
            self.exact = self._take_over_matches(resumed)
        # A buffer on the host, and gradients that ranks exchange by gloo, are beyond what a graph can hold.
        graphs = config.graphs and self.buffer.storage == self.device
        self._play = Captured(self._play_turns, self.device, graphs)
        warm_ups = WARM_UPS if group.backend is None else DDP_WARM_UPS
        self._learn = Captured(self.learner.learn, self.device, graphs and group.backend != "gloo", warm_ups)
        now = state if self.exact else {}
        self._first = Progress(**now.get("first", asdict(self.progress)))  # when these matches were started
        self._logged = Progress(**now.get("logged", asdict(self.progress)))
        self._marks = now.get("marks") or dict.fromkeys(("log", "eval", "save"), self.progress.episodes)
        self._mix: dict[str, float] = {}
        self._stopwatch = Stopwatch(self.progress.seconds)
        self.saver = Saver(config.keep_last, config.milestones, remove_unneeded)
        self.save_seconds = 0.0  # that training has waited for checkpoints
        self.evaluation: Evaluation | None = None  # the last one
        self.stop_signal = 0  # set by whoever wants the run to save and end

    def _take_over(self, resumed: Checkpoint, state: dict[str, Any]) -> None:
        try:
            self.learner.load_weights(resumed.weights)
            self.learner.load_state_dict(state["learner"])
        except (RuntimeError, ValueError, KeyError):  # torch tells it tensor by tensor
            raise UserError(
                f"{resumed.path} holds other networks than these flags ask for; leave out --algo, --critic, "
                "--critic_form, --twin and all flags of the network to go on with its own, or start a new run"
            ) from None
        if state["schedule"]["strategy"] == self.scheduler.config.strategy:  # another one starts by itself
            self.scheduler.load_state_dict(state["schedule"])
            pool = on_main(self.group, lambda: read_pool(resumed.path.parents[1], state["past_selves"]["pool"]))
            self.past.load_state_dict(state["past_selves"], pool)

    def _take_over_matches(self, resumed: Checkpoint) -> bool:
        """Go on with the very matches and buffer of the checkpoint, if all ranks can."""
        name = f"rank{self.group.rank}"
        here = name in resumed.parts and resumed.manifest["world_size"] == self.group.world
        part = resumed.part(name) if here else {}
        if self.group.any(part.get("fits") != self._fits()):
            return False
        self.rollout.load_state_dict(part["rollout"])
        self.learner.load_rank_state(part["learner"])
        for frozen, hidden in zip(self._frozen, part["places"], strict=True):
            if hidden is not None:
                frozen.hidden.copy_(hidden)
        return True

    def _fits(self) -> dict[str, Any]:
        """What must be the same for matches and buffer to go on."""
        config = self.config
        sizes = {"seed": config.seed, "matches": config.matches, "turns": self.buffer.turns}
        encoder = {"encoder": self.encoder.name, "encoder_version": self.encoder.version}
        assignment = self.rollout.assignment
        seats = {
            "both": len(assignment.self_play_both),
            "alone": len(assignment.self_play_one),
            "past": len(assignment.past_selves),
        }
        rewards = {"rewards": config.reward.weights()}
        return {**sizes, **encoder, **seats, **rewards, "opponents": list(self.rollout.opponents)}

    def run(self) -> str:
        """Train to the end of the schedule, of the time, or until a signal; returns which of them it was."""
        try:
            return self._run()
        finally:
            self.saver.close()  # a rank that is lost, or any mistake, costs no checkpoint that was begun

    def _run(self) -> str:
        self._prepare()
        if not self.exact:
            self._renew_past_selves()
            self.rollout.start(self.learner.act)
        self._stopwatch = Stopwatch(self.progress.seconds)  # compiling and bringing matches apart are not training
        if not self.exact:
            self._fill_buffer()
        self._agree()
        ended = self.over() if self.progress.updates else ""  # it may have been stopped while it was closed
        while not ended:
            self._cycle()
            ended = self._ended()
            self._between_cycles(going_on=ended in ("", "signal"))
        if ended == "signal":
            self._save()
        else:
            self._save(best=self._evaluate(record=True), closed=True)
            if self.progress.episodes > self._logged.episodes:
                self._log()  # not in the checkpoint: a run that goes on logs as if it had never ended
        self._finish_saving()
        return ended

    @property
    def epsilon(self) -> float:
        """Share of random moves at this point."""
        return self.learner.epsilon(self.progress.episodes)

    @property
    def share_done(self) -> float:
        """How much of the run is behind, from 0 to 1: of its episodes, or of its time if that is further."""
        config, progress = self.config, self.progress
        shares = [progress.episodes / config.schedule.max_episodes]
        if config.max_minutes > 0:
            shares.append(progress.seconds / (60 * config.max_minutes))
        return min(1.0, max(shares))

    # --- a cycle

    def _fill_buffer(self) -> None:
        """Turns before the first update; a resumed run fills its buffer anew before it goes on."""
        for _ in range(math.ceil(self.learner.warmup_turns / self.learner.turns)):
            self._cycle(learn=False)

    def _cycle(self, learn: bool = True) -> None:
        progress, config, group = self.progress, self.config, self.group
        self._prepare()
        group.doing = "playing"
        self._play()
        progress.turns += self.learner.turns
        progress.env_steps += self.learner.turns * self.rollout.all_matches
        turns = progress.turns - self._first.turns
        progress.episodes = self._first.episodes + self.rollout.episodes(turns)
        progress.next_match = self._first.next_match + self.rollout.all_matches * (turns // TURNS + SPARE_MATCHES)
        if learn:
            factor = lr_factor(config.ddp.lr_scaling, group.world) * warmup(progress.updates, config.ddp.lr_warmup)
            self.learner.anneal(factor, self.share_done)
            group.doing = "an update"
            self._learn()
            progress.updates += self.learner.updates
        progress.seconds = self._stopwatch.seconds

    def _prepare(self) -> None:
        """Opponents and share of random moves for the turns to come."""
        mix = self.scheduler.mix(self.progress.episodes)
        if mix != self._mix:
            self._mix = mix
            self.rollout.set_mix(mix)
        self.rollout.epsilon.fill_(self.epsilon)

    def _play_turns(self) -> None:
        for _ in range(self.learner.turns):
            self.rollout.play_turn(self.learner.act, self.learner.record_step)

    # --- between cycles

    def _between_cycles(self, going_on: bool) -> None:
        config, progress = self.config, self.progress
        every = config.ddp.check_sync
        if every and progress.updates // every != (progress.updates - self.learner.updates) // every:
            self.group.doing = "comparing parameters"
            self.group.check_sync(self.learner.named_weights(), f"update {progress.updates}")
        intervals = {"log": config.log_interval, "eval": config.evaluation.eval_interval, "save": config.save_interval}
        due = {what: self._due(what, interval) for what, interval in intervals.items()}
        if due["log"]:
            self._log()
        best = due["eval"] and going_on and self._evaluate()  # the end has an evaluation of its own
        if due["save"] or best:
            self._save(best)
        self.console.progress(min(progress.episodes, config.schedule.max_episodes))

    def _due(self, what: str, interval: int) -> bool:
        """Whether the episodes have passed a multiple of the interval since this was asked last."""
        before, self._marks[what] = self._marks[what], self.progress.episodes
        return interval > 0 and self._marks[what] // interval != before // interval

    def over(self) -> str:
        """Which limit the run has reached, if any."""
        config = self.config
        if self.progress.episodes >= config.schedule.max_episodes:
            return "max_episodes"
        if config.max_minutes > 0 and self.progress.seconds >= 60 * config.max_minutes:
            return "max_minutes"
        return ""

    def _ended(self) -> str:
        stopped = self._agree()
        ended = self.over()
        return "signal" if stopped and ended != "max_episodes" else ended

    def _agree(self) -> bool:
        """Whether a signal has come to any rank; and one time for all: learning rates and the end follow from it."""
        self.group.doing = "agreeing whether to go on"
        mine = torch.tensor([float(self.stop_signal != 0), self.progress.seconds], dtype=torch.float64)
        stopped, seconds = self.group.sum_(mine).tolist()
        self.progress.seconds = seconds / self.group.world
        return stopped > 0

    @contextmanager
    def _pause(self, what: str) -> Iterator[None]:
        """Time that is not training. The device finishes first: its work is training."""
        self.group.doing = what
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        with self._stopwatch.pause():
            yield

    # --- log, evaluate, save

    def _log(self) -> None:
        """Read what has added up on the devices of all ranks; the only wait for the device between evaluations."""
        progress, before, group = self.progress, self._logged, self.group
        group.doing = "logging"
        sums = group.sum_(pack(self.rollout.pop_results(), self.learner.pop_stats()))
        opponents = (*self.rollout.opponents, *self.past.names)
        window = unpack(sums, opponents, self.learner.LOGGED, group.world)
        self._judge_skipped(window)
        for name, (wins, draws, losses) in window.matches.items():
            self.scheduler.record(name, wins, draws, losses)
        self._renew_past_selves()
        seconds, updates = max(1e-9, progress.seconds - before.seconds), progress.updates - before.updates
        rate = (progress.env_steps - before.env_steps) / seconds
        values = window.metrics()
        values |= {"train/epsilon": self.epsilon, "train/opponent_level": self.scheduler.rung(progress.episodes)}
        values |= {"time/global_fps": rate, "time/updates_per_second": updates / seconds}
        values |= {"time/seconds": progress.seconds, "train/env_steps": progress.env_steps}
        values["train/updates"] = progress.updates
        on_main(group, lambda: self.metrics.log(progress.episodes, values | gpu_gauges()))
        fields = window.console_fields()
        self.console.line(
            {
                "episode": progress.episodes,
                "reward": fields["reward"],
                "epsilon": f"{self.epsilon:.3f}",
                "level": self.scheduler.level(progress.episodes),
                "won": fields["won"],
                **{label: f"{values[name]:.3f}" for label, name in self.learner.SHOWN.items()},
                "env steps/s": f"{rate:,.0f}",
                "ranks": group.world,
            }
        )
        self._logged = Progress(**asdict(progress))

    def _renew_past_selves(self) -> None:
        """Now and then the team joins its past selves, and others of them play."""
        progress = self.progress
        if self.past.renew(progress.turns, progress.episodes, self.config.schedule.league_interval):
            on_main(self.group, lambda: self.past.write(self.folder))

    def _judge_skipped(self, window: LogWindow) -> None:
        """Updates whose gradients are not finite are left out; too many in a row end the run. Alike on all ranks."""
        if window.skipped_in_a_row >= SKIPS_IN_A_ROW:
            batches = self.group.gather(on_host(self.learner.last_batch()))
            if self.group.is_main:
                torch.save(dict(enumerate(batches)), self.folder / BAD_BATCH)
            skipped = f"{window.skipped_in_a_row:.0f}"
            raise self._not_finite(f"the gradient of {skipped} updates in a row (last batch: {BAD_BATCH})")
        if window.skipped:
            self.console.note(f"{window.skipped:.0f} updates were left out: their gradients were not finite")

    def _evaluate(self, record: bool = False) -> bool:
        """Rank 0 plays, and all learn the result: whether it is the best so far."""
        with self._pause("an evaluation"):
            points = on_main(self.group, lambda: self._points(record))
        best = points > self.progress.best
        self.progress.best = max(points, self.progress.best)
        return best

    def _points(self, record: bool) -> float:
        config, episode = self.config, self.progress.episodes
        actor = self.learner.actor
        self.evaluation = evaluate(actor, self.encoder, config.evaluation, self.device, config.seed, record)
        self.metrics.log(episode, self.evaluation.metrics())
        if config.evaluation.eval_gif and (gif := self.evaluation.best_gif()):
            self.metrics.animation("eval/best_match", gif, episode)
        rates = ", ".join(f"{name} {result.win_rate:.1%}" for name, result in self.evaluation.results.items())
        self.console.note(f"evaluation at episode {episode}: wins against {rates}")
        return self.evaluation.points

    def _save(self, best: bool = False, closed: bool = False) -> None:
        """All meet and hand their part to rank 0, which writes while training goes on. Closed: it is the end."""
        begin = time.perf_counter()
        with self._pause("a checkpoint"):
            self.group.barrier("a checkpoint")
            weights = on_host(dict(self.learner.named_weights()))
            if self.group.any(not _all_finite(weights.values())):  # one to go on from must be good
                raise self._not_finite("a weight")
            ranks = self.group.gather(self._own_part())
            on_main(self.group, lambda: self._write_checkpoint(weights, ranks, best, closed))
        self.save_seconds += time.perf_counter() - begin

    def _own_part(self) -> dict[str, Any] | None:
        """This rank's matches and buffer, if they are to be saved."""
        if self.learner.rank_state_bytes > self.config.save_buffer * 2**20:
            return None
        held = {"learner": self.learner.rank_state(), "places": [frozen.hidden for frozen in self._frozen]}
        return {"fits": self._fits(), "rollout": self.rollout.state_dict(), **on_host(held)}

    def _write_checkpoint(self, weights: dict[str, torch.Tensor], ranks: list[Any], best: bool, closed: bool) -> None:
        config = self.config
        state = {
            "progress": asdict(self.progress),
            "first": asdict(self._first),
            "logged": asdict(self._logged),
            "marks": dict(self._marks),
            "learner": on_host(self.learner.state_dict()),
            "schedule": self.scheduler.state_dict(),
            "past_selves": self.past.state_dict(),
            "onednn": bool(torch.backends.mkldnn.enabled),  # rounds otherwise
            "closed": closed,
        }
        parts = {"state": state} | {f"rank{rank}": part for rank, part in enumerate(ranks) if part is not None}
        about = policy.describe_actor(self.encoder, self.learner.spec)
        about |= {"algo": config.algo, "world_size": self.group.world}
        self.past.write(self.folder)  # a run begun with --load_model has its pool from another folder
        self.saver.save(self.folder, self.progress.episodes, weights, parts, about, best)

    def _finish_saving(self) -> None:
        self.group.doing = "a checkpoint"
        on_main(self.group, self.saver.finish)

    def _not_finite(self, what: str) -> NotFinite:
        return NotFinite(
            f"{what} is not finite at episode {self.progress.episodes}; go on from the last checkpoint with lower "
            f"learning rates: --resume {self.folder} {self.learner.lower_lr_flags()}"
        )


def _all_finite(tensors: Iterable[torch.Tensor]) -> bool:
    return bool(torch.stack([tensor.isfinite().all() for tensor in tensors]).all())

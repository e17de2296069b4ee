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

from arena.batch import encoder_named
from arena.rng import match_key
from arena.rules import TEAM
from marl import checkpoint, policy
from marl.autoscale import free_memory
from marl.config import TrainConfig
from marl.console import Console, Quiet
from marl.ddpg import LOGGED, Ddpg
from marl.distributed import Ranks, Solo, lr_factor, on_main, warmup
from marl.errors import UserError
from marl.evaluation import Evaluation, evaluate
from marl.graphs import Captured
from marl.metrics import Metrics, Silent, gpu_gauges
from marl.precision import Precision
from marl.replay_buffer import ReplayBuffer
from marl.rollout import Rollout
from opponents.scheduler import Scheduler

BUFFER_KEYS = 1 << 40  # batch draws follow from match numbers that no match has: this and the rank
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
        resumed: checkpoint.Checkpoint | None = None,
    ) -> None:
        self.config, self.group, self.folder, self.metrics, self.console = config, group, folder, metrics, console
        self.device = group.device
        self.encoder = encoder_named(config.network.encoder)
        state = resumed.part("state") if resumed else None
        self.progress = Progress(**state["progress"]) if state else Progress()
        if config.load_model:
            self.progress.best = Progress.best  # of another run
        self.scheduler = Scheduler(config.schedule)
        self.buffer = _buffer(config, group)
        first_match = self.progress.next_match
        self.rollout = Rollout(
            config.matches,
            self.scheduler.reachable(),
            config.reward.weights(),
            self.buffer,
            config.seed,
            group.rank,
            group.world,
            first_match,
        )
        precision = Precision(config.precision, self.device)
        self.learner = Ddpg(
            config.ddpg, config.network, self.buffer, group, precision, config.ddp.sync_freq, config.seed
        )
        if state:
            self._take_over(resumed, state)
        # A buffer on the host, and gradients that gloo takes through the host, are beyond what a graph can hold.
        graphs = config.graphs and self.buffer.storage == self.device
        self._play = Captured(self._play_turns, self.device, graphs)
        self._learn = Captured(self._make_updates, self.device, graphs and group.backend != "gloo")
        self._first = Progress(**asdict(self.progress))  # where this process took over
        self._began = time.perf_counter()
        self._paused = 0.0
        self._mix: dict[str, float] = {}
        self._marks = dict.fromkeys(("log", "eval", "save"), self.progress.episodes)
        self._logged = Progress(**asdict(self.progress))
        self.evaluation: Evaluation | None = None  # the last one
        self.stop_signal = 0  # set by whoever wants the run to save and end

    def _take_over(self, resumed: checkpoint.Checkpoint, state: dict[str, Any]) -> None:
        try:
            self.learner.load_weights(resumed.weights)
            self.learner.load_state_dict(state["learner"])
        except (RuntimeError, ValueError, KeyError):  # torch tells it tensor by tensor
            raise UserError(
                f"{resumed.path} holds other networks than these flags ask for; leave out --encoder, --body, --critic, "
                "--critic_form and --twin to go on with its own, or start a new run"
            ) from None
        if state["schedule"]["strategy"] == self.scheduler.config.strategy:  # another one starts by itself
            self.scheduler.load_state_dict(state["schedule"])

    def run(self) -> str:
        """Train to the end of the schedule, of the time, or until a signal; returns which of them it was."""
        self.rollout.start()
        self._fill_buffer()
        self._agree()
        self._began = time.perf_counter() - (self.progress.seconds - self._first.seconds)
        ended = ""
        while not ended:
            self._cycle()
            self._between_cycles()
            ended = self._ended()
        if self.progress.episodes > self._logged.episodes:
            self._log()
        if ended != "signal":
            self._evaluate(record=True)
        self._save()
        return ended

    @property
    def epsilon(self) -> float:
        """Share of random moves at this point."""
        ddpg = self.config.ddpg
        return max(ddpg.epsilon_min, ddpg.epsilon * ddpg.epsilon_speed**self.progress.episodes)

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
        ddpg = self.config.ddpg
        for _ in range(math.ceil(max(ddpg.warmup_turns, ddpg.n_step + 1) / ddpg.turns)):
            self._cycle(learn=False)

    def _cycle(self, learn: bool = True) -> None:
        progress, config, group = self.progress, self.config, self.group
        mix = self.scheduler.mix(progress.episodes)
        if mix != self._mix:
            self._mix = mix
            self.rollout.mix(mix)
        self.rollout.epsilon.fill_(self.epsilon)
        group.doing = "playing"
        self._play()
        progress.turns += config.ddpg.turns
        progress.env_steps += config.ddpg.turns * self.rollout.all_matches
        turns = progress.turns - self._first.turns
        progress.episodes = self._first.episodes + self.rollout.episodes(turns)
        progress.next_match = self._first.next_match + self.rollout.all_matches * (
            turns // config.episode_length + SPARE_MATCHES
        )
        if learn:
            factor = lr_factor(config.ddp.lr_scaling, group.world) * warmup(progress.updates, config.ddp.lr_warmup)
            self.learner.set_lr(factor * (1 - (1 - config.ddpg.lr_end) * self.share_done))
            group.doing = "an update"
            self._learn()
            progress.updates += config.ddpg.updates
        progress.seconds = self._first.seconds + time.perf_counter() - self._began - self._paused

    def _play_turns(self) -> None:
        for _ in range(self.config.ddpg.turns):
            self.rollout.play_turn(self.learner.act)

    def _make_updates(self) -> None:
        for _ in range(self.config.ddpg.updates):
            self.learner.update()

    # --- between cycles

    def _between_cycles(self) -> None:
        config, progress = self.config, self.progress
        every = config.ddp.check_sync
        if every and progress.updates // every != (progress.updates - config.ddpg.updates) // every:
            self.group.doing = "comparing parameters"
            self.group.check_sync(self.learner.named_weights(), f"update {progress.updates}")
        if self._due("log", config.log_interval):
            self._log()
        going_on = progress.episodes < config.schedule.max_episodes  # the end has an evaluation of its own
        if config.evaluation.eval_interval and self._due("eval", config.evaluation.eval_interval) and going_on:
            self._evaluate()
        if self._due("save", config.save_interval):
            self._save()
        self.console.progress(min(progress.episodes, config.schedule.max_episodes))

    def _due(self, what: str, interval: int) -> bool:
        """Whether the episodes have passed a multiple of the interval since this was asked last."""
        before, self._marks[what] = self._marks[what], self.progress.episodes
        return self._marks[what] // interval != before // interval

    def _ended(self) -> str:
        config = self.config
        if self.progress.episodes >= config.schedule.max_episodes:
            return "max_episodes"
        if self._agree():
            return "signal"
        if config.max_minutes > 0 and self.progress.seconds >= 60 * config.max_minutes:
            return "max_minutes"
        return ""

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
        begin = time.perf_counter()
        yield
        self._paused += time.perf_counter() - begin

    # --- log, evaluate, save

    def _log(self) -> None:
        """Read what has added up on the devices of all ranks; the only wait for the device between evaluations."""
        progress, before, group = self.progress, self._logged, self.group
        group.doing = "logging"
        tally, rewards = self.rollout.results()
        sums = group.sum_(torch.cat((tally.flatten().double(), rewards.double(), self.learner.logged().double())))
        sums = sums.tolist()
        losses = sums[-len(LOGGED) :]
        updates = max(1, (progress.updates - before.updates) * group.world)
        values = {name: value / updates for name, value in zip(LOGGED, losses, strict=True)}
        for name, value in values.items():  # the same on all ranks: they are sums over them
            if not math.isfinite(value):
                raise self._not_finite(name)
        snakes = [sums[tally.numel() + k] for k in range(TEAM)]
        finished = sum(sums[: tally.numel()]) or 1
        for i, name in enumerate(self.rollout.opponents):
            wins, draws, losses_ = (round(n) for n in sums[3 * i : 3 * i + 3])
            if wins + draws + losses_:
                self.scheduler.record(name, wins, draws, losses_)
                values[f"win_rate/{name}"] = wins / (wins + draws + losses_)
        seconds = max(1e-9, progress.seconds - before.seconds)
        rate = (progress.env_steps - before.env_steps) / seconds
        level = self.scheduler.level(progress.episodes)
        values |= {f"reward/snake{k}": reward / finished for k, reward in enumerate(snakes)}
        values["reward/total"] = sum(snakes) / finished
        values |= {"train/epsilon": self.epsilon, "train/opponent_level": self.scheduler.rung(progress.episodes)}
        values |= {"time/global_fps": rate, "time/updates_per_second": updates / group.world / seconds}
        values |= {"time/seconds": progress.seconds, "train/env_steps": progress.env_steps}
        values["train/updates"] = progress.updates
        on_main(group, lambda: self.metrics.log(progress.episodes, values | gpu_gauges()))
        rates = [f"{name.removeprefix('win_rate/')} {v:.0%}" for name, v in values.items() if "win_rate/" in name]
        self.console.line(
            {
                "episode": progress.episodes,
                "reward": f"{values['reward/total']:.1f} ({', '.join(f'{r / finished:.1f}' for r in snakes)})",
                "epsilon": f"{self.epsilon:.3f}",
                "level": level,
                "won": " ".join(rates),
                "critic": f"{values['losses/critic']:.3f}",
                "actor": f"{values['losses/actor']:.3f}",
                "env steps/s": f"{rate:,.0f}",
                "ranks": group.world,
            }
        )
        self._logged = Progress(**asdict(progress))

    def _evaluate(self, record: bool = False) -> None:
        """Rank 0 plays, all learn the result, and the best so far is saved."""
        with self._pause("an evaluation"):
            points = on_main(self.group, lambda: self._points(record))
        if points > self.progress.best:
            self.progress.best = points
            self._save(best=True)

    def _points(self, record: bool) -> float:
        config, episode = self.config, self.progress.episodes
        actor = self.learner.raw_actor
        self.evaluation = evaluate(actor, self.encoder, config.evaluation, self.device, config.seed, record)
        self.metrics.log(episode, self.evaluation.metrics())
        rates = ", ".join(f"{name} {result.win_rate:.1%}" for name, result in self.evaluation.results.items())
        self.console.note(f"evaluation at episode {episode}: wins against {rates}")
        return self.evaluation.points

    def _save(self, best: bool = False) -> None:
        """Rank 0 writes; all meet before it, and wait for it."""
        with self._pause("a checkpoint"):
            self.group.barrier("a checkpoint")
            weights = dict(self.learner.named_weights())
            if self.group.any(not _all_finite(weights.values())):  # one to go on from must be good
                raise self._not_finite("a weight")
            on_main(self.group, lambda: self._write_checkpoint(weights, best))

    def _write_checkpoint(self, weights: dict[str, torch.Tensor], best: bool) -> None:
        progress, config = self.progress, self.config
        state = {
            "progress": asdict(progress),
            "learner": self.learner.state_dict(),
            "schedule": self.scheduler.state_dict(),
        }
        about = policy.about(self.encoder, config.network.body)
        about |= {"algo": config.algo, "world_size": self.group.world}
        saved = checkpoint.save(self.folder, progress.episodes, weights, {"state": state}, about)
        if best:
            checkpoint.mark_best(self.folder, saved)
        checkpoint.prune(self.folder, config.keep_last)

    def _not_finite(self, what: str) -> NotFinite:
        ddpg = self.config.ddpg
        return NotFinite(
            f"{what} is not finite at episode {self.progress.episodes}; go on from the last checkpoint with lower "
            f"learning rates: --resume {self.folder} --a_lr {ddpg.a_lr / 3:.1g} --c_lr {ddpg.c_lr / 3:.1g}"
        )


def _all_finite(tensors: Iterable[torch.Tensor]) -> bool:
    return bool(torch.stack([tensor.isfinite().all() for tensor in tensors]).all())


def _buffer(config: TrainConfig, group: Solo | Ranks) -> ReplayBuffer:
    """This rank's buffer: on the training device, or on the host if it does not fit there."""
    encoder, device = encoder_named(config.network.encoder), group.device
    turns = config.ddpg.buffer_size // (TEAM * config.matches)
    need = turns * config.matches * TEAM * encoder.width
    storage = torch.device("cpu") if device.type == "cuda" and need > 0.8 * free_memory(device) else device
    key = int(match_key(config.seed, BUFFER_KEYS + group.rank))
    return ReplayBuffer(turns, config.matches, encoder, device, key, storage)

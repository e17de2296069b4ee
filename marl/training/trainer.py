"""The training loop: cycles of playing and learning, and what happens between cycles.

A cycle plays some turns and makes some updates, the same on every rank. All decisions between cycles (log, evaluate,
save, stop) follow from counters that all ranks share, or are agreed by a collective.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

import torch

from arena.backends.cuda_graphs import WARM_UPS, Captured
from arena.jit import announced
from marl.cli.invocation import joined
from marl.errors import UserError
from marl.learners.learner import lr_factor, warmup
from marl.metrics.log_window import LogWindow, pack, unpack
from marl.metrics.rank_gauges import RankGauges
from marl.metrics.run_metrics import gpu_gauges
from marl.ranks.process_group import on_main
from marl.rollout.rollout import Wrap
from marl.storage.saver import Saver, on_host
from marl.training.checkpointing import manifest_fields, rank_part, shared_part
from marl.training.evaluation import Evaluation, evaluate
from marl.training.outputs import RunOutputs
from marl.training.past_selves import remove_unneeded
from marl.training.profiling import CycleProfile
from marl.training.progress import Stopwatch, crosses_multiple
from marl.training.training_state import BAD_BATCH, SKIPS_IN_A_ROW, NotFinite, TrainingState, all_finite

DDP_WARM_UPS = 11  # backward passes that DDP needs before a recording
RESUMABLE = ("signal", "callback", "pause")  # ends before the limit of the run


class Trainer:
    """Trains a team from a state, and writes to the outputs of its run."""

    def __init__(self, state: TrainingState, outputs: RunOutputs) -> None:
        self.state, self.outputs = state, outputs
        config, group, learner = state.config, state.group, state.learner
        # A graph can hold neither a buffer on the host nor gradients that ranks exchange by gloo.
        graphs = config.graphs and state.buffer.storage == state.device
        warm_ups = WARM_UPS if group.backend is None else DDP_WARM_UPS
        self._records_turns = graphs and not state.named.on_host  # nor players that decide on the host
        self.profile = CycleProfile(config.profile, outputs.folder, group, self._pause, outputs.console.note)
        self._play = self.profile.named("playing", Captured(self._play_turns, state.device, self._records_turns))
        learn = Captured(learner.learn, state.device, graphs and group.backend != "gloo", warm_ups)
        self._learn = self.profile.named("learning", learn)
        self._mix: dict[str, float] = {}
        self._stopwatch = Stopwatch(state.progress.seconds)
        self.rank_gauges = RankGauges(group)
        self.saver = Saver(config.keep_last, remove_unneeded, group.rank, group.world)
        self.save_seconds = 0.0  # that training has waited for checkpoints
        self._saved_turns = -1  # of the run, when this start began its last checkpoint
        self._logged_saves = (0, 0.0)  # checkpoints and save_seconds at the last log line
        self.evaluation: Evaluation | None = None  # the last one; on rank 0 only
        self.stop_signal = 0  # number of the signal that asks the run to save and end
        self._is_stopped_by_callback = False

    def request_stop(self, signal: int) -> None:
        """Let the run save and end after this cycle."""
        self.stop_signal = signal

    def run(self) -> str:
        """Train until one of max_episodes, max_minutes, pause, signal and callback ends it; returns which."""
        try:
            return self._run()
        finally:
            self.saver.close()  # after a lost rank or any other error too: a checkpoint that was begun is completed
            self.state.named.close()

    def _run(self) -> str:
        state = self.state
        self._apply_schedule()
        if state.evaluation_plan.at_start and not state.is_resumed:
            self._play_evaluation()  # before the first update: where the curves begin
        if not state.is_exact:
            self._renew_past_selves()
            with announced("rollout", self.outputs.console.task):
                state.rollout.start(state.learner.act, self._records_turns)
        self._stopwatch = Stopwatch(state.progress.seconds)  # compiling and staggering matches are not training
        if not state.is_exact and not self.fill_buffer():
            return self._stop_reason  # nothing is new since the last checkpoint
        self._agree()
        ended = state.limit_reached() if state.progress.updates else ""  # the last evaluation may be missing
        with self.profile.cycles():
            while not ended:
                self.profile.cycle(self.cycle)
                ended = self._end_reason()
                self._between_cycles(at_limit=ended not in ("", *RESUMABLE))
        if ended in RESUMABLE:
            if self._saved_turns != state.progress.turns:
                self._save()
        else:
            self._save(best=self._evaluate(record=True), closed=True)
            if state.progress.episodes > state.logged.episodes:
                self._log()  # not in the checkpoint: a resumed run logs as if it had not ended
        self._finish_saving()
        return ended

    # --- a cycle

    def fill_buffer(self) -> bool:
        """Play the turns before the first update, or again for a resumed run; False if a signal has ended it."""
        learner = self.state.learner
        for _ in range(math.ceil(learner.warmup_turns / learner.turns)):
            self.cycle(learn=False)
            if self._agree():
                return False
        return True

    def cycle(self, learn: bool = True) -> None:
        """Play the turns of a cycle; then make its updates, unless `learn` is off."""
        state = self.state
        config, group, progress, learner = state.config, state.group, state.progress, state.learner
        with announced(config.algo, self.outputs.console.task):
            self._apply_schedule()
            group.doing = "playing"
            with self.rank_gauges.playing(learner.turns * config.matches):
                self._play()
            state.count_turns(learner.turns)
            if learn:
                factor = lr_factor(config.ddp.lr_scaling, group.world) * warmup(progress.updates, config.ddp.lr_warmup)
                learner.anneal(factor, state.fraction_done)
                group.doing = "an update"
                self._learn()
                progress.updates += learner.updates
        while state.slow_texts:
            self.outputs.console.note(state.slow_texts.pop(0), warning=True)
        progress.seconds = self._stopwatch.seconds

    def instrument(self, wrap: Wrap) -> None:
        """Measure the parts of a cycle: functions are replaced by wrap(part, function), for good.

        Turns and updates are no longer recorded as one CUDA graph each; `wrap` may record the parts.
        """
        rollout, learner = self.state.rollout, self.state.learner
        rollout.instrument(wrap)
        learner.instrument(wrap, rollout.outputs)
        self._play, self._learn = self._play_turns, learner.learn

    def _apply_schedule(self) -> None:
        """Set the opponents and the fraction of random moves for the next turns."""
        state = self.state
        mix = state.scheduler.mix(state.progress.episodes, state.fraction_done)
        if mix != self._mix:
            self._mix = mix
            state.rollout.set_mix(mix)
        state.rollout.epsilon.fill_(state.epsilon)

    def _play_turns(self) -> None:
        rollout, learner = self.state.rollout, self.state.learner
        learner.begin_round()
        rollout.play_turns(learner.turns, learner.act)

    # --- between cycles

    def _between_cycles(self, at_limit: bool) -> None:
        """What is due now. at_limit: the run ends, with an evaluation and a checkpoint of its own."""
        state = self.state
        config, updates, learner = state.config, state.progress.updates, state.learner
        if crosses_multiple(config.ddp.check_sync, updates - learner.updates, updates):
            state.group.doing = "comparing parameters"
            state.group.check_sync(learner.named_weights(), f"update {updates}")
        self.outputs.console.progress(state.progress.episodes, state.progress.seconds)
        evaluates, saves = state.is_evaluation_due(), state.is_save_due()
        state.is_milestone = state.is_due("milestone", config.milestones)
        if state.is_due("log", config.log_interval):
            self._log()
        best = evaluates and not at_limit and self._evaluate()
        if saves or best or state.is_milestone:
            self._save(best, skippable=not (at_limit or best or state.is_milestone))

    def _end_reason(self) -> str:
        """Why the run ends now: max_episodes, max_minutes, pause, signal or callback; empty if it continues."""
        stopped = self._agree()
        limit = self.state.limit_reached()
        return self._stop_reason if stopped and limit != "max_episodes" else limit

    @property
    def _stop_reason(self) -> str:
        return "callback" if self._is_stopped_by_callback and not self.stop_signal else "signal"

    def _agree(self) -> bool:
        """Whether any rank is to stop. Also sets the same time on all ranks: learning rates and the end depend
        on it."""
        group, progress = self.state.group, self.state.progress
        group.doing = "agreeing whether to continue"
        mine = (float(self.stop_signal != 0 or self._is_stopped_by_callback), progress.seconds)
        stopped, seconds = group.sum_(torch.tensor(mine, dtype=torch.float64)).tolist()
        progress.seconds = seconds / group.world
        return stopped > 0

    @contextmanager
    def _pause(self, what: str) -> Iterator[None]:
        """Time that is not training. The device finishes its work before: that is training."""
        self.state.group.doing = what
        if self.state.device.type == "cuda":
            torch.cuda.synchronize(self.state.device)
        with self._stopwatch.pause(), self.rank_gauges.pause():
            yield

    def _call_back(self, event: str, values: Mapping[str, float]) -> None:
        """Tell the caller's callback, if there is one; it may ask the run to save and end. Not counted as training."""
        if self.outputs.callback is not None:
            with self._pause("the callback"):
                self._is_stopped_by_callback |= self.outputs.asks_to_stop(event, self.state.progress, values)

    # --- log

    def _log(self) -> None:
        """Read the sums of all ranks from their devices; the only wait for the device between evaluations."""
        state = self.state
        progress, before, group, learner = state.progress, state.logged, state.group, state.learner
        group.doing = "logging"
        of_ranks = self.rank_gauges.exchange(progress.episodes, progress.seconds - before.seconds)
        sums = group.sum_(pack(state.rollout.pop_results(), learner.measure(), learner.pop_stats()))
        opponents = (*state.rollout.opponents, *state.past_selves.names, *state.named.labels)
        window = unpack(sums, opponents, learner.MEASURED, learner.LOGGED, group.world)
        self._check_nonfinite_updates(window)
        for name, (wins, draws, losses) in window.matches.items():
            if state.scheduler.counts(name):
                state.scheduler.record(name, wins, draws, losses)
        for line in state.named.new_problems():
            self.outputs.console.note(line, warning=True)
        self._renew_past_selves()
        values = window.metrics(progress.env_steps - before.env_steps) | learner.lrs
        values |= {"train/epsilon": state.epsilon} if learner.uses_epsilon else {}
        values["train/opponent_level"] = state.scheduler.rung(progress.episodes, state.fraction_done)
        values |= progress.metrics(before) | of_ranks
        save_cost = self._pop_save_cost()
        values |= {} if save_cost is None else {"time/save_ms": save_cost}
        gauges = gpu_gauges if state.device.type == "cuda" else dict  # a run on a CPU has nothing to do with the GPUs
        on_main(group, lambda: self.outputs.metrics.log(progress.episodes, values | gauges(), progress.env_steps))
        opponent = state.scheduler.level(progress.episodes, state.fraction_done)
        scheduled = {"opponent": opponent, "won": window.won(opponent)} if state.rollout.assignment.scheduled else {}
        self.outputs.console.line(
            {
                "episode": progress.episodes,
                "reward": f"{sum(window.rewards):.1f}",
                **scheduled,
                **{f"won {name}": window.won(name) for name in state.named.labels},
                **{label: f"{values[name]:.3f}" for label, name in learner.SHOWN.items()},
                "env steps/s": f"{values['time/global_fps']:,.0f}",
                **({"epsilon": f"{state.epsilon:.3f}"} if learner.uses_epsilon else {}),
                **({"ranks": group.world} if group.world > 1 else {}),
                "save": "-" if save_cost is None else f"{save_cost:.0f} ms",
            },
            {"by opponent": window.won_by_opponent(), "each snake": window.reward_text()},
        )
        state.logged = progress.copy()
        self._call_back("log", values)

    def _pop_save_cost(self) -> float | None:
        """Milliseconds that training has waited for a checkpoint, mean since the last log line; None without one."""
        (saved, seconds), self._logged_saves = self._logged_saves, (self.saver.saved, self.save_seconds)
        begun = self.saver.saved - saved
        return 1000 * (self.save_seconds - seconds) / begun if begun else None

    def _renew_past_selves(self) -> None:
        """At intervals the team joins its past selves, and other past selves play."""
        past_selves, progress = self.state.past_selves, self.state.progress
        if past_selves.renew(progress.turns, progress.episodes, self.state.config.schedule.league_interval):
            on_main(self.state.group, lambda: past_selves.write(self.outputs.folder))

    def _check_nonfinite_updates(self, window: LogWindow) -> None:
        """Updates with gradients that are not finite are skipped; too many in a row end the run, on all ranks."""
        group = self.state.group
        if window.skipped_in_a_row >= SKIPS_IN_A_ROW:
            batches = group.gather(on_host(self.state.learner.last_batch()))
            if group.is_main:
                torch.save(dict(enumerate(batches)), self.outputs.folder / BAD_BATCH)
            skipped = f"{window.skipped_in_a_row:.0f}"
            raise self._not_finite(f"the gradient of {skipped} updates in a row (last batch: {BAD_BATCH})")
        if window.skipped:
            skipped = f"{window.skipped:.0f} updates were skipped: their gradients were not finite"
            self.outputs.console.note(skipped, warning=True)

    def _not_finite(self, what: str) -> NotFinite:
        flags = f"{joined(['--resume', str(self.outputs.folder)])} {self.state.learner.lower_lr_flags()}"
        return NotFinite(
            f"{what} is not finite at episode {self.state.progress.episodes}; resume from the last checkpoint with "
            f"lower learning rates: {flags}"
        )

    # --- evaluate

    def _evaluate(self, record: bool = False) -> bool:
        """Play an evaluation; returns whether its team is `best` now."""
        return self.state.progress.take_evaluation(*self._play_evaluation(record))

    def _play_evaluation(self, record: bool = False) -> tuple[float, float]:
        """All ranks play, rank 0 logs and shares the points and their margin."""
        state, console = self.state, self.outputs.console
        with self._pause("an evaluation"):
            self.evaluation = evaluate(
                state.learner.actor,
                state.encoder,
                replace(state.config.evaluation, eval_matches=state.evaluation_plan.matches),
                state.group,
                state.config.seed,
                record,
                lambda name, fraction: console.task(f"evaluation against {name}: {fraction:.0%}"),
            )
            console.task("")
            points = on_main(state.group, self._report_evaluation)
        if self.evaluation is not None:
            self._call_back("evaluation", self.evaluation.metrics())
        return points

    def _report_evaluation(self) -> tuple[float, float]:
        """Log and print the evaluation; returns its points and their margin."""
        metrics, progress, evaluation = self.outputs.metrics, self.state.progress, self.evaluation
        episode = progress.episodes
        metrics.log(episode, evaluation.metrics() | {"time/seconds": progress.seconds}, progress.env_steps)
        if self.state.config.evaluation.eval_gif and (gif := evaluation.best_gif()):
            metrics.animation("eval/best_match", gif, episode)
        for line in evaluation.console_lines(episode, self.state.config.schedule.max_episodes):
            self.outputs.console.note(line)
        return evaluation.points, evaluation.margin

    # --- save

    def _save(self, best: bool = False, closed: bool = False, skippable: bool = False) -> None:
        """Copy the state on all ranks; they write it while training goes on. closed: at the end of the run.

        skippable: leave this one out if an earlier checkpoint is still being written.
        """
        state, group, saver = self.state, self.state.group, self.saver
        begin = time.perf_counter()
        with self._pause("a checkpoint"):
            if saver.start is None:
                self._prepare_saving()
            weights = on_host(dict(state.learner.named_weights()))
            mine = (saver.has_failed, not all_finite(weights.values()), saver.unfinished > 0, saver.unfinished > 1)
            failed, not_finite, writing, queued = group.sum_(torch.tensor(mine, dtype=torch.int32)).tolist()
            if failed:
                self._raise_save_error()
            if not_finite:  # a run must be able to resume from its checkpoints
                raise self._not_finite("a weight")
            if not (writing and skippable):
                if queued:  # two states in memory at most, beside the one in training
                    with group.keep_alive():
                        saver.wait(left=1)
                    if closed:
                        begin = time.perf_counter()  # training is over: it has not waited
                self._start_writing(weights, best, closed)
                state.saved_at, self._saved_turns = state.progress.seconds, state.progress.turns
        if writing and skippable:
            saver.left_out += 1
            episodes = state.progress.episodes
            self.outputs.console.note(f"no checkpoint at episode {episodes}: the last one is still being written")
        self.save_seconds += time.perf_counter() - begin

    def _prepare_saving(self) -> None:
        """Before the first checkpoint of this process: clear up, and see that all ranks write into one folder."""
        group, folder, saver = self.state.group, self.outputs.folder, self.saver

        def prepare() -> str:
            self.state.named.write(folder)
            self.state.past_selves.write(folder)  # a run begun with --load_model has its pool from another folder
            return saver.prepare(folder)

        saver.start = on_main(group, prepare)
        if group.any(not saver.sees(folder)):
            raise UserError(f"{folder} is not the same folder on all machines; choose a shared --runs_dir")

    def _start_writing(self, weights: dict[str, torch.Tensor], best: bool, closed: bool) -> None:
        state, folder, episode = self.state, self.outputs.folder, self.state.progress.episodes
        mine = rank_part(state)
        if not state.group.is_main:
            self.saver.save_part(folder, episode, mine)
            return
        parts = {"state": shared_part(state, closed)} | ({} if mine is None else {"rank0": mine})
        self.saver.save(folder, episode, weights, parts, manifest_fields(state), best)

    def _finish_saving(self) -> None:
        """Wait until all checkpoints are complete; an error of any rank is raised on all of them."""
        group = self.state.group
        group.doing = "a checkpoint"
        for waiting in (not group.is_main, group.is_main):  # rank 0 completes what the others have written
            with group.keep_alive():
                if waiting:
                    self.saver.wait()
            if group.any(self.saver.has_failed):
                self._raise_save_error()

    def _raise_save_error(self) -> NoReturn:
        """Raise the error of the first rank that could not write, on all ranks."""
        self.saver.abandon()
        problems = self.state.group.gather(self.saver.problem()) or []
        raise UserError(self.state.group.broadcast(next((problem for problem in problems if problem is not None), "")))

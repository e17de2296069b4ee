"""The study of a sweep: trials, pruning and importances by Optuna, an optional package that only this file imports.

The study is a journal file in the sweep's folder, which several processes may use at the same time. A trial that was
cut off is enqueued again with the same values, and resumes its run.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena.extras import install_hint
from marl.analysis.runs import RUNNING, is_run, read_summary
from marl.commands.sweep_ranges import Range
from marl.errors import UserError
from marl.process_identity import is_running, process_name
from marl.storage.run_folder import GROUP

JOURNAL = "study.journal"
RUN, SETTINGS, PROCESS = "run", "settings", "process"
REDUCTION = 3  # of successive halving: of the trials at a rung, the best third goes on


class TrialResult(NamedTuple):
    """A trial that has ended."""

    number: int
    run: str
    state: str  # complete, pruned or failed
    value: float | None  # the last win rate
    params: Mapping[str, Any]


class Study:
    """An Optuna study that maximizes a win rate."""

    def __init__(self, folder: Path, name: str, ranges: Sequence[Range], settings: Mapping[str, Any]) -> None:
        """settings: what all trials have in common; a study that exists must have the same."""
        self._optuna = optuna = import_optuna()
        self._folder, self._process = folder, process_name(os.getpid())
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self._distributions = {each.path: self._distribution(each) for each in ranges}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # experimental parts say so at each use
            storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
            self._study = optuna.create_study(
                study_name=name,
                storage=storage,
                direction="maximize",
                load_if_exists=True,
                pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=REDUCTION),
            )
            # Another seed at each start: with the same one, a second start would draw the same values again. Beside
            # other processes a random one, since they may start at the same time.
            is_shared = any(map(self._is_of_another_process, self._running()))
            seed = None if is_shared else len(self._study.trials)
            self._study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        saved = self._study.user_attrs.get(SETTINGS)
        if saved is not None and saved != dict(settings):
            changed = next(key for key in {**saved, **settings} if saved.get(key) != settings.get(key))
            raise UserError(
                f"the sweep {folder} was begun with {changed} {saved.get(changed)!r}, not {settings.get(changed)!r}; "
                "take another --name"
            )
        self._study.set_user_attr(SETTINGS, dict(settings))
        self._trials: dict[int, Any] = {}
        self._enqueue_cut_off()

    def ask(self) -> tuple[int, str, dict[str, Any]]:
        """The next trial: its number, the name of its run and its values."""
        trial = self._study.ask(self._distributions)
        self._trials[trial.number] = trial
        run = trial.user_attrs.get(RUN) or f"trial_{trial.number:03}"
        trial.set_user_attr(RUN, run)
        trial.set_user_attr(PROCESS, self._process)
        return trial.number, run, dict(trial.params)

    def should_prune(self, number: int, rates: Sequence[float]) -> bool:
        """Report the win rates of a trial so far, and ask whether to end it."""
        trial = self._trials[number]
        known = self._study.get_trials(deepcopy=False)[number].intermediate_values
        for step, rate in enumerate(rates, start=1):
            if step not in known:
                trial.report(rate, step)
        return bool(rates) and bool(trial.should_prune())

    def finish(self, number: int, state: str, value: float | None = None) -> None:
        """End a trial. state: complete, pruned or failed."""
        states = self._optuna.trial.TrialState
        known = {"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}
        self._study.tell(self._trials.pop(number), value if state == "complete" else None, state=known[state])

    @property
    def begun(self) -> int:
        """Trials that have ended or run, also those of other processes."""
        return len(self.results()) + len(self._running())

    def results(self) -> list[TrialResult]:
        """All ended trials, the best first; failed ones last."""
        states = self._optuna.trial.TrialState
        names = {states.COMPLETE: "complete", states.PRUNED: "pruned", states.FAIL: "failed"}
        found = []
        trials = self._study.get_trials(deepcopy=False)
        newest = {trial.user_attrs.get(RUN): trial.number for trial in trials}  # one that was cut off has a later one
        for trial in trials:
            if trial.state in names and newest[trial.user_attrs.get(RUN)] == trial.number:
                values = [trial.intermediate_values[step] for step in sorted(trial.intermediate_values)]
                value = trial.value if trial.value is not None else values[-1] if values else None
                run = trial.user_attrs.get(RUN, "-")
                found.append(TrialResult(trial.number, run, names[trial.state], value, dict(trial.params)))
        order = {"complete": 0, "pruned": 1, "failed": 2}
        return sorted(found, key=lambda each: (order[each.state], -(each.value or 0.0), each.number))

    def importances(self) -> dict[str, float]:
        """Share of each option in the differences between trials, the largest first (PED-ANOVA); empty if unknown."""
        complete = [each for each in self.results() if each.state == "complete"]
        if len(complete) < 4 or len({each.value for each in complete}) < 2:
            return {}
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = get_param_importances(self._study, evaluator=PedAnovaImportanceEvaluator())
        return {path: float(share) for path, share in found.items()}

    def _distribution(self, each: Range) -> Any:
        distributions = self._optuna.distributions
        if each.choices:
            return distributions.CategoricalDistribution(each.choices)
        if each.is_int:
            return distributions.IntDistribution(int(each.low), int(each.high), log=each.is_log)
        return distributions.FloatDistribution(each.low, each.high, log=each.is_log)

    def _running(self) -> list[Any]:
        """Trials that run or were cut off."""
        return self._study.get_trials(deepcopy=False, states=(self._optuna.trial.TrialState.RUNNING,))

    def _is_of_another_process(self, trial: Any) -> bool:
        """Whether another process is training this trial. On another machine: whether its run was written lately."""
        process = trial.user_attrs.get(PROCESS, "")
        if process in ("", self._process):
            return False
        run, alive = self._folder / GROUP / trial.user_attrs[RUN], is_running(process)
        return bool(alive) if alive is not None else is_run(run) and read_summary(run).state == RUNNING

    def _enqueue_cut_off(self) -> None:
        """Trials that an earlier start left running are tried again in the same run folder."""
        states = self._optuna.trial.TrialState
        for trial in self._running():
            if self._is_of_another_process(trial):
                continue
            if trial.params and RUN in trial.user_attrs:
                self._study.enqueue_trial(trial.params, user_attrs={RUN: trial.user_attrs[RUN]})
            self._study.tell(trial.number, state=states.FAIL)


def import_optuna() -> Any:
    """The package, or a UserError that says how to install it."""
    try:
        import optuna
    except ImportError:
        raise UserError(f"sweep needs the package optuna; {install_hint('sweep')}") from None
    return optuna

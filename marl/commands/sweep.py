"""The command `sweep`: search good values of options by Optuna, with successive halving; resumable.

The study is a journal file in the sweep's folder, which several processes may use at the same time. A trial that was
cut off is enqueued again with the same values, and resumes its run. Optuna is an optional package.
"""

import argparse
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from marl import plugins
from marl.analysis.runs import RUNNING, is_run, read_summary
from marl.analysis.tables import print_rows
from marl.cli.arguments import flag_names, positive_int, refuse_flags, split_own
from marl.cli.invocation import command
from marl.cli.wording import count, duration
from marl.commands.dry_run import check_opponents
from marl.commands.training_jobs import DONE, TrainingJob, find_room, run_jobs
from marl.compute.process_identity import is_running, process_name
from marl.config.options import Option, Schema, Setting, as_key
from marl.config.train_config import ALIASES, TrainConfig, read_config
from marl.config.values import as_written, describe, parse
from marl.errors import UserError
from marl.metrics.run_metrics import LINES
from marl.storage.run_folder import GROUP, named
from marl.storage.run_names import RUNS_DIR
from marl.training.resume_plan import plan_resume

FOLDER, AGAINST, TRIALS = "runs/sweeps", "level3", 30  # by default
JOURNAL, BEST, PICTURE = "study.journal", "best.yaml", "importances.png"
MOST_FAILURES = 3  # in a row; then something is wrong with all of them
REDUCTION = 3  # of successive halving: of the trials at a rung, the best third goes on
RUN, SETTINGS, PROCESS = "run", "settings", "process"  # what the study keeps beside trials and values
# Flag -> whether a value follows. All other arguments are those of a training.
OWN_FLAGS = {
    "--name": True, "--trials": True, "--against": True, "--range": True, "--side-by-side": True, "--sweeps-dir": True,
    "--help": False, "-h": False,
}  # fmt: skip
# Flags of train that every trial has for itself.
NOT_GIVEN = ("--run-name", "--runs-dir", "--resume", "--load-model", "--seeds", "--dry-run", "--print-config")
# Ranges of options by their plain names; a learner gets those of the options that its section has. About a factor of 3
# to 10 around the defaults.
BUILT_IN: Mapping[str, str] = {
    "lr": "5e-4:2e-2:log", "a_lr": "2e-4:1e-2:log", "c_lr": "2e-4:1e-2:log", "gamma": "0.9:0.995",
    "gae_lambda": "0.8:0.99", "clip": "0.1:0.4", "epochs": "1:4", "n_step": "1:6", "tau": "0.002:0.05:log",
    "entropy": "5e-4:5e-2:log",
}  # fmt: skip
HOW = "NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=A,B,C"
TRAINS = True  # the words set aside are those of a training
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}  # of a trial that has ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = f"{parser.prog} [flags] [flags of train]"
    parser.epilog = (
        "Every trial is a training with the same flags (`--algo ppo --max_episodes 5000`) and other values of the\n"
        "options with a range. The objective is the win rate in the last evaluation, against one opponent or the mean\n"
        "of several. Successive halving ends the trials early that are behind: two thirds after the evaluations 1, 3\n"
        "and 9.\n"
        f"Ranges without --range, as far as the learner has the option: {', '.join(BUILT_IN)}.\n"
        f"The folder {FOLDER}/NAME holds the study, the runs, {BEST} for `train --config` and {PICTURE}.\n"
        "The same command once more goes on with the study, up to --trials in all. Started while another one\n"
        "runs, both work on the same study, also on several machines with a common file system."
    )
    parser.add_argument("--name", metavar="NAME", help="of the sweep (default: the learner)")
    parser.add_argument(
        "--range", action="append", default=[], metavar="RANGE", help=f"{HOW}; once per option, like lr=1e-4:1e-2:log"
    )
    parser.add_argument("--trials", type=positive_int, default=TRIALS, metavar="N", help=f"in all (default: {TRIALS})")
    parser.add_argument("--against", default=AGAINST, metavar="PLAYER,...", help=f"whom to beat (default: {AGAINST})")
    parser.add_argument(
        "--side-by-side", type=positive_int, metavar="N", help="trials at a time (default: as train --seeds)"
    )
    parser.add_argument("--sweeps-dir", default=FOLDER, metavar="DIR", help=f"folder of sweeps (default: {FOLDER})")


def set_aside(argv: list[str]) -> tuple[list[str], list[str]]:
    """The sweep's own arguments, and those of a training."""
    return split_own(argv, OWN_FLAGS)


def run(args: argparse.Namespace) -> int:
    argv = list(args.set_aside)
    refuse_flags(argv, NOT_GIVEN, "sweep", "every trial has a run of its own")
    if not flag_names(argv) & {"--eval-opponents", "--evaluation.eval-opponents"}:
        argv += ["--eval-opponents", args.against]
    argv.append("--no-eval-gif")
    plan = plan_resume(argv)
    ranges = parse_ranges(args.range, plan.config.algo)  # if Optuna is missing, nothing is written
    name = plan.config.algo if args.name is None else args.name
    try:
        named(args.sweeps_dir, name)
    except UserError as error:  # it names the flag of train
        raise UserError(str(error).replace("--run_name", "--name", 1)) from None
    # An opponent that does not exist, or that no evaluation plays, is an error now, not one of every trial.
    check_opponents(plan)
    for opponent in args.against.split(","):
        if opponent not in plan.config.evaluation.eval_opponents:
            evaluated = ",".join(plan.config.evaluation.eval_opponents)
            raise UserError(f"--against {opponent!r} is none of --eval_opponents {evaluated}")
    folder = Path(args.sweeps_dir) / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}; choose another --sweeps_dir") from None
    sweep = Sweep(folder, argv, plan.config, ranges, args.against)
    room = find_room({}, plan, args.side_by_side)
    print(f"sweep {folder}: up to {count(args.trials, 'trial')}, {len(room)} at a time, against {args.against}")
    for path, values in ranges.items():
        print(f"  {range_text(path, values)}")
    hooks = (sweep.start, sweep.end, lambda running: sweep.watch(running) / args.trials, lambda: sweep.is_hopeless)
    stopped = run_jobs(sweep.jobs(args.trials), room, "trials", *hooks)
    sweep.summarise()
    if stopped:
        print(f"stopped; resume: {command('sweep', *_own_argv(args), *args.set_aside)}")
        return 128 + stopped
    if sweep.is_hopeless:
        print(f"snakes: {MOST_FAILURES} trials failed one after another: {sweep.problem}", file=sys.stderr)
    return int(sweep.is_hopeless)


class Sweep:
    """An Optuna study that maximizes a win rate, and the trials of one start of the command."""

    def __init__(self, folder: Path, argv: Sequence[str], config: TrainConfig, ranges: Mapping[str, Any], against: str):
        """argv, config: of all trials. ranges: path -> its distribution. against: whom to beat."""
        optuna = import_optuna()
        self._folder, self._argv, self._config, self._ranges = folder, argv, config, ranges
        self._against, self._process = against, process_name(os.getpid())
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._states = optuna.trial.TrialState
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # experimental parts say so at each use
            backend = optuna.storages.journal.JournalFileBackend(str(folder / JOURNAL))
            self._study = optuna.create_study(
                study_name=folder.name,
                storage=optuna.storages.JournalStorage(backend),
                direction="maximize",
                load_if_exists=True,
                pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=REDUCTION),
            )
            # Another seed at each start: with the same one, a second start would draw the same values again. Beside
            # other processes a random one, since they may start at the same time.
            is_shared = any(map(self._is_of_another_process, self._running()))
            seed = None if is_shared else len(self._study.trials)
            self._study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        texts = [range_text(path, values) for path, values in ranges.items()]
        self._check_settings({"training": shlex.join(argv), "against": against, "ranges": texts})
        for trial in self._running():  # cut off in an earlier start: tried again in the same run folder
            if not self._is_of_another_process(trial):
                if trial.params and RUN in trial.user_attrs:
                    self._study.enqueue_trial(trial.params, user_attrs={RUN: trial.user_attrs[RUN]})
                self._study.tell(trial.number, state=self._states.FAIL)
        self._trials: dict[str, Any] = {}  # run -> trial, while it runs
        self._pruned: set[str] = set()
        self._read: dict[str, int] = {}  # run -> size of its metrics when they were last read
        self._reported: dict[str, int] = {}  # run -> its evaluations that the study knows
        self._failures = 0
        self.is_hopeless = False  # from the last of MOST_FAILURES failures on, whatever comes of the other trials
        self.problem = ""

    def jobs(self, trials: int) -> Iterator[TrainingJob]:
        """Up to `trials` trials, each asked for when there is room: the later ones know the results of the earlier."""
        while len(self.results()) + len(self._running()) < trials:
            trial = self._study.ask(dict(self._ranges))
            run = trial.user_attrs.get(RUN) or f"trial_{trial.number:03}"
            trial.set_user_attr(RUN, run)
            trial.set_user_attr(PROCESS, self._process)
            self._trials[run] = trial
            argv = [*self._argv, *params_as_flags(trial.params), "--run-name", run, "--runs-dir", str(self._folder)]
            yield TrainingJob(run, argv, self._folder / GROUP / run, self._config)

    def start(self, job: TrainingJob, _: str) -> str:
        """The values of a trial, in words."""
        return ", ".join(f"{path} {value_text(value)}" for path, value in self._trials[job.name].params.items())

    def watch(self, running: Sequence[TrainingJob]) -> int:
        """Report new evaluations to the study, and end the trials that are behind; returns how many have ended."""
        for job in running:
            file = job.folder / LINES
            size = file.stat().st_size if file.exists() else 0
            if size != self._read.get(job.name) and job.name not in self._pruned:
                self._read[job.name] = size
                if self._should_prune(job.name, self._rates(job.folder)):
                    self._pruned.add(job.name)
                    job.stop()
        return len(self.results())

    def end(self, job: TrainingJob) -> str:
        """Tell the study how a trial ended; one that was stopped stays open, and is resumed by the next start."""
        rates, is_pruned, is_done = self._rates(job.folder), job.name in self._pruned, job.state == DONE
        trial = self._trials[job.name]
        if job.is_asked_to_stop and not is_done and not is_pruned:
            return ""
        if is_done and rates:
            self._should_prune(job.name, rates)
            self._study.tell(trial, rates[-1])
            message = f"{rates[-1]:.1%} against {self._against}"
        elif is_pruned:
            self._study.tell(trial, state=self._states.PRUNED)
            message = f"pruned at {rates[-1]:.1%} after {count(len(rates), 'evaluation')}"
        else:
            self._study.tell(trial, state=self._states.FAIL)
            problem = job.problem or f"no evaluation (log: {job.log})"
            message, self.problem = f"failed with {problem}", f"{job.name}: {problem}"
        self._failures = self._failures + 1 if message.startswith("failed") else 0
        self.is_hopeless |= self._failures >= MOST_FAILURES
        return f"{message}, {duration(job.seconds)}"

    def results(self) -> list[Any]:
        """All ended trials, the best first, failed ones last; of one that was cut off, the next one of its run."""
        newest = {trial.user_attrs.get(RUN): trial for trial in self._study.get_trials(deepcopy=False)}
        ended = [trial for trial in newest.values() if trial.state.is_finished()]
        return sorted(ended, key=lambda each: (list(STATES).index(each.state.name), -(each.value or 0.0), each.number))

    def summarise(self) -> None:
        """Print the table of all trials, and write the best configuration and the picture."""
        results = self.results()
        if not results:
            print("no trial has ended yet")
            return
        rows = [("trial", "state", f"won against {self._against}", *self._ranges)]
        for each in results:
            values = [value_text(each.params[path]) if path in each.params else "-" for path in self._ranges]
            rate = "-" if each.value is None else f"{each.value:.1%}"
            rows.append((each.user_attrs.get(RUN, "-"), STATES[each.state.name], rate, *values))
        print()
        print_rows(rows, right=(2,))
        complete = [each for each in results if each.state == self._states.COMPLETE]
        if not complete:
            print("no trial was trained to its end, so there is no best one")
            return
        importances = self._importances(complete)
        if importances:
            message = ", ".join(f"{path} {share:.0%}" for path, share in importances.items())
            print(f"\nwhat mattered, by {count(len(complete), 'complete trial')}: {message}")
        self._draw([each for each in results if each.value is not None], importances)
        self._write_best(complete[0], len(results))

    def _check_settings(self, settings: Mapping[str, Any]) -> None:
        """A study that exists must have the same settings of all trials."""
        saved = self._study.user_attrs.get(SETTINGS, settings)
        for name, now in settings.items():
            if saved.get(name) != now:
                begun = f"the sweep {self._folder} was begun with {name} {saved.get(name)!r}"
                raise UserError(f"{begun}, not {now!r}; take another --name")
        self._study.set_user_attr(SETTINGS, settings)

    def _should_prune(self, run: str, rates: Sequence[float]) -> bool:
        """Report the new win rates of a trial, and ask whether to end it."""
        trial = self._trials[run]
        for step in range(self._reported.get(run, 0), len(rates)):
            trial.report(rates[step], step + 1)
        self._reported[run] = len(rates)
        return bool(rates) and bool(trial.should_prune())

    def _rates(self, folder: Path) -> list[float]:
        """Win rates of a run so far (the mean over the opponents), without the evaluation before the first update."""
        names = self._against.split(",")
        points = [point for point in read_summary(folder).evaluations if point.episode]
        return [sum(each.rates[name] for name in names) / len(names) for each in points if {*names} <= {*each.rates}]

    def _running(self) -> list[Any]:
        """Trials that run or were cut off."""
        return self._study.get_trials(deepcopy=False, states=(self._states.RUNNING,))

    def _is_of_another_process(self, trial: Any) -> bool:
        """Whether another process is training this trial. On another machine: whether its run was written lately."""
        process = trial.user_attrs.get(PROCESS, "")
        if process in ("", self._process):
            return False
        run, alive = self._folder / GROUP / trial.user_attrs[RUN], is_running(process)
        return bool(alive) if alive is not None else is_run(run) and read_summary(run).state == RUNNING

    def _importances(self, complete: Sequence[Any]) -> dict[str, float]:
        """Share of each option in the differences between trials, the largest first (PED-ANOVA); empty if unknown."""
        if len(complete) < 4 or len({each.value for each in complete}) < 2:
            return {}
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return get_param_importances(self._study, evaluator=PedAnovaImportanceEvaluator())

    def _draw(self, results: Sequence[Any], importances: Mapping[str, float]) -> None:
        from marl.pictures.canvas import save_png
        from marl.pictures.sweep import Dot, draw

        dots = [Dot(each.params, each.value, each.state == self._states.PRUNED) for each in results]
        about = f"win rate in percent against {self._against}, {count(len(dots), 'trial')}; pruned ones in grey"
        logs = [path for path, values in self._ranges.items() if getattr(values, "log", False)]
        save_png(self._folder / PICTURE, draw(f"{self._folder.name}: {about}", importances, dots, logs))
        print(f"picture: {self._folder / PICTURE}")

    def _write_best(self, best: Any, trials: int) -> None:
        from arena.files import write_user_file
        from marl.config.reader import to_yaml

        config = replace(read_config([*self._argv, *params_as_flags(best.params)]), run_name=None, runs_dir=RUNS_DIR)
        message, file = f"{best.user_attrs[RUN]}, {best.value:.1%} against {self._against}", self._folder / BEST
        about = f"# The best of {trials} trials of the sweep {self._folder.name}: {message}.\n"
        write_user_file(file, about + plugins.as_yaml() + to_yaml(config))
        print(f"best: {message}; train it: {command('train', '--config', file)}")


def parse_ranges(texts: Sequence[str], algo: str) -> dict[str, Any]:
    """Path -> distribution of the options that the user gives; without any, of those built in for the learner."""
    schema, section = Schema(TrainConfig, ALIASES), TrainConfig(algo=algo).learner_section
    known = [f"{section}.{name}={text}" for name, text in BUILT_IN.items() if f"{section}.{name}" in schema.options]
    if not texts and not known:
        raise UserError(f"there are no built-in ranges for {algo}; give --range {HOW}")
    ranges: dict[str, Any] = {}
    for text in texts or known:
        path, distribution = _parse_range(text, schema, section)
        if path in ranges:
            raise UserError(f"--range: {path} has two ranges; leave one out")
        ranges[path] = distribution
    return ranges


def _parse_range(text: str, schema: Schema, section: str) -> tuple[str, Any]:
    distributions = import_optuna().distributions
    name, _, values = text.partition("=")
    if not (name and values):
        raise UserError(f"--range {text}: {HOW} is needed")
    option = schema.resolve(Setting(None, f"--{name}", as_key(name), values), section)
    if option.section in schema.chosen_by(schema.options["algo"]) and option.section != section:
        raise UserError(f"--range {text}: {option.path} is not read by this learner, which reads section {section}")
    if ":" not in values:
        choices = [part.strip() for part in values.split(",")]
        for choice in choices:
            _value(choice, option, text)
        if len(set(choices)) < 2:
            raise UserError(f"--range {text}: two different values or more are needed")
        return option.path, distributions.CategoricalDistribution(choices)
    ends, is_log = values.removesuffix(":log").split(":"), values.endswith(":log")
    low, high = (_value(end, option, text) for end in (*ends, "")[:2])
    if len(ends) != 2 or not {type(low), type(high)} <= {int, float}:
        raise UserError(f"--range {text}: {HOW} is needed")
    if not low < high or (is_log and low <= 0):
        raise UserError(f"--range {text}: low must be below high{', and above 0 for log' if is_log else ''}")
    kind = distributions.IntDistribution if type(low) is int else distributions.FloatDistribution
    return option.path, kind(low, high, log=is_log)


def _value(text: str, option: Option, given: str) -> Any:
    try:
        return parse(text, option.type)
    except (ValueError, OverflowError):
        allowed = describe(option.type)[1]
        raise UserError(f"--range {given}: {text!r} is no value of {option.path}; allowed: {allowed}") from None


def range_text(path: str, distribution: Any) -> str:
    """A range as the user writes it."""
    if hasattr(distribution, "choices"):
        return f"{path}={','.join(distribution.choices)}"
    return f"{path}={distribution.low:g}:{distribution.high:g}{':log' if distribution.log else ''}"


def params_as_flags(params: Mapping[str, Any]) -> list[str]:
    """The flags of a training with these values."""
    return [word for path, value in params.items() for word in (f"--{path}", value_text(value))]


def value_text(value: Any) -> str:
    """A value of a trial as a user would write it; four digits tell enough of a drawn number."""
    return f"{value:.4g}" if isinstance(value, float) else as_written(value)


def import_optuna() -> Any:
    """The package, or a UserError that says how to install it."""
    try:
        import optuna.storages.journal
    except ImportError:
        from arena.extras import install_hint

        raise UserError(f"sweep needs the package optuna; {install_hint('sweep')}") from None
    return optuna


def _own_argv(args: argparse.Namespace) -> list[str]:
    argv = [] if args.name is None else ["--name", args.name]
    argv += [word for text in args.range for word in ("--range", text)]
    argv += ["--trials", str(args.trials), "--against", args.against]
    argv += [] if args.side_by_side is None else ["--side-by-side", str(args.side_by_side)]
    return argv + ([] if args.sweeps_dir == FOLDER else ["--sweeps-dir", args.sweeps_dir])

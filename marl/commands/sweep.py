"""The command `sweep`: search good values of options by Optuna, with successive halving; resumable."""

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.analysis.tables import print_rows
from marl.arguments import count, flag_names, refuse_flags
from marl.commands.sweep_ranges import BUILT_IN, HOW, Range, as_flags, parse_ranges, value_text
from marl.errors import UserError
from marl.invocation import command
from marl.storage.run_folder import GROUP, named
from marl.training.metrics import LINES
from marl.wording import count as counted
from marl.wording import duration

if TYPE_CHECKING:
    from marl.commands.sweep_study import Study, TrialResult
    from marl.commands.training_jobs import Job
    from marl.training.resume_plan import ResumePlan

FOLDER = "runs/sweeps"
AGAINST = "level3"
TRIALS = 30
BEST, PICTURE = "best.yaml", "importances.png"
MOST_FAILURES = 3  # in a row; then something is wrong with all of them
# Flag -> whether a value follows. All other words are those of a training.
OWN_FLAGS = {
    "--name": True, "--trials": True, "--against": True, "--range": True, "--side-by-side": True, "--sweeps-dir": True,
    "--help": False, "-h": False,
}  # fmt: skip
OWN_RUN = ("--run-name", "{run}", "--runs-dir", "{folder}")
# Flags of train that every trial has for itself.
NOT_GIVEN = ("--run-name", "--runs-dir", "--resume", "--load-model", "--seeds", "--dry-run", "--print-config")


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
    parser.add_argument("--trials", type=count, default=TRIALS, metavar="N", help=f"in all (default: {TRIALS})")
    parser.add_argument("--against", default=AGAINST, metavar="PLAYER,...", help=f"whom to beat (default: {AGAINST})")
    parser.add_argument("--side-by-side", type=count, metavar="N", help="trials at a time (default: as train --seeds)")
    parser.add_argument("--sweeps-dir", default=FOLDER, metavar="DIR", help=f"folder of sweeps (default: {FOLDER})")


def set_aside(words: list[str]) -> tuple[list[str], list[str]]:
    """The sweep's own words, and those of a training."""
    own: list[str] = []
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        (own if flag in OWN_FLAGS else others).append(word)
        if OWN_FLAGS.get(flag) and not equals:
            own += rest[:1]
            del rest[:1]
    return own, others


def run(args: argparse.Namespace) -> int:
    from marl.commands.sweep_study import Study, import_optuna
    from marl.commands.training_jobs import find_room, run_jobs
    from marl.progress_bar import ProgressBar
    from marl.training.resume_plan import plan_resume
    from marl.training.signals import stop_on_signals

    words = _trained_words(args)
    plan = plan_resume(words)
    ranges = parse_ranges(args.range, plan.config.algo)
    import_optuna()  # if it is missing, nothing is written
    folder = _folder_of(args, plan.config.algo)
    _check_opponents(plan, args.against)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}; choose another --sweeps_dir") from None
    settings = {"training": shlex.join(words), "against": args.against, "ranges": [str(each) for each in ranges]}
    study = Study(folder, folder.name, ranges, settings)
    room = find_room({}, plan, args.side_by_side)
    print(f"sweep {folder}: up to {counted(args.trials, 'trial')}, {len(room)} at a time, against {args.against}")
    for each in ranges:
        print(f"  {each}")
    stopped: list[int] = []
    with stop_on_signals(stopped.append), ProgressBar("trials") as bar:
        sweep = _Sweep(study, folder, words, args.against, args.trials, bar)
        run_jobs(
            sweep.jobs(),
            room,
            sweep.tell_start,
            lambda job, code: sweep.end(job, code, bool(stopped) or sweep.is_hopeless),
            lambda: bool(stopped) or sweep.is_hopeless,
            sweep.watch,
        )
    again = command("sweep", *_own_words(args), *args.set_aside)
    results = study.results()
    _summarise(study, results, ranges, folder, args.against, words)
    if stopped:
        print(f"stopped; resume: {again}")
        return 128 + stopped[0]
    if sweep.is_hopeless:
        print(f"snakes: {MOST_FAILURES} trials failed one after another: {sweep.problem}", file=sys.stderr)
        return 1
    return 0


def _trained_words(args: argparse.Namespace) -> list[str]:
    """The words of all trainings. Evaluations are against the objective's opponent alone, unless others are given."""
    words = list(args.set_aside)
    refuse_flags(words, NOT_GIVEN, "sweep", "every trial has a run of its own")
    if not flag_names(words) & {"--eval-opponents", "--evaluation.eval-opponents"}:
        words += ["--eval-opponents", args.against]
    return [*words, "--no-eval-gif"]


def _folder_of(args: argparse.Namespace, algo: str) -> Path:
    """The folder of the sweep; its name is checked as that of a run."""
    name = algo if args.name is None else args.name
    try:
        named(args.sweeps_dir, name)
    except UserError as error:  # it names the flag of train
        raise UserError(str(error).replace("--run_name", "--name", 1)) from None
    return Path(args.sweeps_dir) / name


def _check_opponents(plan: "ResumePlan", against: str) -> None:
    """An opponent that does not exist, or that no evaluation plays, is an error now, not one of every trial."""
    from marl.commands.dry_run import check_opponents

    check_opponents(plan)
    evaluated = plan.config.evaluation.eval_opponents
    for name in against.split(","):
        if name not in evaluated:
            raise UserError(f"--against {name!r} is none of --eval_opponents {','.join(evaluated)}")


class _Sweep:
    """The trials of one start."""

    def __init__(self, study: "Study", folder: Path, words: Sequence[str], against: str, trials: int, bar: Any) -> None:
        self._study, self._folder, self._words, self._against, self._trials = study, folder, words, against, trials
        self._bar = bar
        self._numbers: dict[str, int] = {}  # run -> number of its trial
        self._pruned: set[str] = set()
        self._read: dict[str, int] = {}  # run -> size of its metrics when they were last read
        self._ended = len(study.results())
        self._failures = 0
        self.is_hopeless = False  # from the last of MOST_FAILURES failures on, whatever comes of the other trials
        self.problem = ""

    def jobs(self) -> Iterator["Job"]:
        """The trials, each asked for when there is room: the later ones know the results of the earlier ones."""
        from marl.commands.training_jobs import Job

        while self._study.begun < self._trials:
            number, run, params = self._study.ask()
            self._numbers[run] = number
            own = [word.format(run=run, folder=self._folder) for word in OWN_RUN]
            yield Job(run, [*self._words, *as_flags(params), *own], self._folder / GROUP / f"{run}.log")

    def tell_start(self, job: "Job") -> None:
        flags = job.words[len(self._words) : -len(OWN_RUN)]
        values = [f"{flag[2:]} {value}" for flag, value in zip(flags[::2], flags[1::2], strict=True)]
        print(f"{job.name}: {', '.join(values)}", flush=True)

    def watch(self, running: Sequence["Job"]) -> None:
        """Report new evaluations to the study, and end the trials that are behind."""
        for job in running:
            size = _size_of(self._folder / GROUP / job.name / LINES)
            if size == self._read.get(job.name) or job.name in self._pruned:
                continue  # nothing new
            self._read[job.name] = size
            rates = self._rates(job.name)
            if self._study.should_prune(self._numbers[job.name], rates):
                self._pruned.add(job.name)
                job.stop()
        self._bar.show(self._ended / self._trials)

    def end(self, job: "Job", code: int, is_stopped: bool) -> None:
        """Tell the study how a trial ended; one that was stopped stays open, and is resumed by the next start."""
        rates, pruned = self._rates(job.name), job.name in self._pruned
        if is_stopped and code and not pruned:
            del self._numbers[job.name]
            return
        number = self._numbers.pop(job.name)
        self._ended += 1
        if code == 0 and rates:
            self._study.should_prune(number, rates)
            self._study.finish(number, "complete", rates[-1])
            result = f"{rates[-1]:.1%} against {self._against}"
        elif pruned:
            self._study.finish(number, "pruned")
            result = f"pruned at {rates[-1]:.1%} after {counted(len(rates), 'evaluation')}"
        else:
            self._study.finish(number, "failed")
            self.problem = f"{job.name}: exit code {code}, {job.last_words() or 'no message'} (log: {job.log})"
            result = f"failed with {self.problem}"
        self._failures = self._failures + 1 if result.startswith("failed") else 0
        self.is_hopeless |= self._failures >= MOST_FAILURES
        print(f"{job.name}: {result}, {duration(job.seconds)}", flush=True)

    def _rates(self, run: str) -> list[float]:
        """Win rates of a run so far (the mean over the opponents), without the evaluation before the first update."""
        from marl.analysis.runs import read_summary

        names = self._against.split(",")
        points = read_summary(self._folder / GROUP / run).evaluations
        rates = [[point.rates[name] for name in names if name in point.rates] for point in points if point.episode]
        return [sum(each) / len(names) for each in rates if len(each) == len(names)]


def _summarise(
    study: "Study",
    results: "Sequence[TrialResult]",
    ranges: Sequence[Range],
    folder: Path,
    against: str,
    words: Sequence[str],
) -> None:
    """Print the table of all trials, and write the best configuration and the picture."""
    if not results:
        print("no trial has ended yet")
        return
    paths = [each.path for each in ranges]
    rows = [("trial", "state", f"won against {against}", *paths)]
    for each in results:
        rate = "-" if each.value is None else f"{each.value:.1%}"
        values = [value_text(each.params[path]) if path in each.params else "-" for path in paths]
        rows.append((each.run, each.state, rate, *values))
    print()
    print_rows(rows, right=(2,))
    complete = [each for each in results if each.state == "complete"]
    if not complete:
        print("no trial was trained to its end, so there is no best one")
        return
    importances = study.importances()
    if importances:
        told = ", ".join(f"{path} {share:.0%}" for path, share in importances.items())
        print(f"\nwhat mattered, by {counted(len(complete), 'complete trial')}: {told}")
    _draw(results, importances, ranges, folder, against)
    _write_best(complete[0], folder, against, len(results), words)


def _draw(
    results: "Sequence[TrialResult]",
    importances: dict[str, float],
    ranges: Sequence[Range],
    folder: Path,
    against: str,
) -> None:
    from marl.pictures.canvas import save_png
    from marl.pictures.sweep import Dot, draw

    dots = [Dot(each.params, each.value, each.state == "pruned") for each in results if each.value is not None]
    title = f"{folder.name}: win rate in percent against {against}, {counted(len(dots), 'trial')}; pruned ones in grey"
    save_png(folder / PICTURE, draw(title, importances, dots, [each.path for each in ranges if each.is_log]))
    print(f"picture: {folder / PICTURE}")


def _write_best(best: "TrialResult", folder: Path, against: str, trials: int, words: Sequence[str]) -> None:
    from arena.files import write_user_file
    from marl.config.reader import to_yaml
    from marl.config.train_config import read_config
    from marl.storage.run_names import RUNS_DIR

    config = replace(read_config([*words, *as_flags(best.params)]), run_name=None, runs_dir=RUNS_DIR)
    about = (
        f"# The best of {trials} trials of the sweep {folder.name}: {best.run}, {best.value:.1%} against {against}.\n"
    )
    write_user_file(folder / BEST, about + to_yaml(config))
    print(
        f"best: {best.run}, {best.value:.1%} against {against}; train it: {command('train', '--config', folder / BEST)}"
    )


def _size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # not there yet
        return 0


def _own_words(args: argparse.Namespace) -> list[str]:
    words = [] if args.name is None else ["--name", args.name]
    words += [word for text in args.range for word in ("--range", text)]
    words += ["--trials", str(args.trials), "--against", args.against]
    words += [] if args.side_by_side is None else ["--side-by-side", str(args.side_by_side)]
    return words + ([] if args.sweeps_dir == FOLDER else ["--sweeps-dir", args.sweeps_dir])

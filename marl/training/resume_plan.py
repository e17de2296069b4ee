"""The resume plan of a start: its configuration, and the run or checkpoint that it resumes.

The order: `plan_resume` makes the plan from the command line, before there are ranks, so that mistakes are reported at
once. In the ranks `with_relaunch` replaces the plan if an earlier start of the same launch has begun a run,
`with_resolved_config` chooses all values that are still `auto`, and `load_checkpoint` reads the checkpoint. Only then,
when everything fits, does `choose_folder` make the folder of a new run.

No torch at import: mistakes must be reported at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.config.train_config import TrainConfig, read_config
from marl.errors import UserError
from marl.ranks import environment
from marl.storage import relaunch, run_folder
from marl.storage.run_imports import require_imports
from marl.storage.run_names import find_named, player_name
from marl.storage.run_owner import RunOwner

if TYPE_CHECKING:
    from marl.ranks.process_group import Ranks, Solo
    from marl.storage.checkpoint import Checkpoint
    from marl.storage.relaunch import LaunchRecord
    from marl.training.training_state import TrainingState

# A relaunch resumes its own run, whatever the command line says about resuming.
RELAUNCHED: dict[str, Any] = {
    "load_model": False,
    "load_model_run": None,
    "load_model_run_episode": None,
    "resume": "auto",
}


@dataclass(frozen=True)
class ResumePlan:
    """The configuration of a start, and the run or checkpoint that it resumes."""

    argv: tuple[str, ...]  # the command line without the flags of the launcher
    config: TrainConfig  # the saved configuration of the resumed run, changed by the flags
    source: Path | None  # folder of a run or of a checkpoint to resume; None: a new run
    earlier: "LaunchRecord | None" = None  # an earlier start of the same launch
    launchers: tuple[str | None, ...] = ()  # launcher processes of all ranks; known on rank 0
    # Path -> size for the whole run, of the automatic sizes that are split over the ranks. A resumed run keeps them.
    whole_run: Mapping[str, int] = field(default_factory=dict)
    until: float = 1.0  # fraction of the run at which this start saves and ends
    quiet: bool = False  # print nothing
    # From Python: called with the values of each log line and evaluation; False makes the run save and end.
    callback: Callable[[dict[str, Any]], object] | None = None

    @property
    def resumes_by_path(self) -> bool:
        """Whether the user has named a run or checkpoint by its path."""
        return self.config.resume not in ("auto", "never")

    @property
    def run(self) -> Path | None:
        """The folder of the run that is resumed, or that its checkpoint belongs to; None for a new run."""
        return None if self.source is None else run_folder.run_of(self.source)

    def check_path_exists(self) -> None:
        """Raise a UserError if --resume names a path that does not exist."""
        if self.resumes_by_path and not Path(self.config.resume).exists():
            runs = run_folder.listing([run.name for run in run_folder.all_runs(self.config.runs_dir)])
            raise UserError(
                f"--resume {self.config.resume}: there is no such run or checkpoint; in {self.config.runs_dir} there: "
                f"{runs}; also: last, auto or never"
            )

    def with_relaunch(self, group: "Solo | Ranks") -> "ResumePlan":
        """The plan of a relaunch, if an earlier start of this launch has begun a run; else the same plan, checked.

        A collective. A run that the launch has saved is resumed from there; one that it has not saved begins again
        from the same source.
        """
        run = self.run
        folders = [*run_folder.all_runs(self.config.runs_dir), *([run] if run else [])]
        earlier = relaunch.find(folders, group)
        launchers = tuple(group.gather(relaunch.launcher()) or ())
        if earlier is None:
            self.check_path_exists()
            return replace(self, launchers=launchers)
        source = earlier.run if earlier.is_saved else earlier.source
        config = _read_config_of(self.argv, source)
        if earlier.is_saved:
            config = replace(config, **RELAUNCHED)
        return replace(self, config=config, source=source, earlier=earlier, launchers=launchers)

    def with_resolved_config(self, group: "Solo | Ranks") -> "ResumePlan":
        """The same plan with every `auto` replaced by a value for the device. A collective: rank 0 chooses.

        Sizes of a resumed run that were automatic are split again if the number of ranks is another one.
        """
        from marl.config import autoscale
        from marl.ranks.process_group import on_main

        ranks_on_node = environment.ranks_on_this_node()

        def choose() -> tuple[TrainConfig, dict[str, int]]:
            config, saved = self.config, self.saved_start()
            kept = self._kept_sizes(saved)
            if saved.get("world_size", group.world) != group.world:
                config = autoscale.split_again(config, kept, group.world)
            sizes = kept | autoscale.whole_run_sizes(self.config, group.device)
            return autoscale.resolve(config, group.device, ranks_on_node, group.world), sizes

        config, whole_run = on_main(group, choose)
        return replace(self, config=config, whole_run=whole_run)

    def saved_start(self) -> dict[str, Any]:
        """What run.json says about the last start of the run that is resumed; empty for a new run."""
        return run_folder.read_run(self.run) if self.run else {}

    def _kept_sizes(self, saved: Mapping[str, Any]) -> dict[str, int]:
        """Sizes of the whole run that an earlier start chose and that neither a flag nor a --config file replaces."""
        from marl.config import autoscale

        sizes = saved.get("whole_run")
        if not isinstance(sizes, dict) or self.config.ddp.scaling != "strong":
            return {}
        # What this command line says alone; a plain --batch_size is that of the learner.
        given = read_config(["--algo", self.config.algo, *self.argv])
        return autoscale.automatic(given, sizes)

    def load_checkpoint(self, group: "Solo | Ranks") -> "Checkpoint | None":
        """The checkpoint to resume, if any. A collective: rank 0 finds and verifies it, the others read the same."""
        from marl.ranks.process_group import on_main
        from marl.storage import checkpoint_finder

        if self.source is None:
            return None
        found: Checkpoint | None = None

        def find() -> str | None:
            nonlocal found
            found = self._find_checkpoint(self.source)
            return str(found.path) if found else None

        path = on_main(group, find)
        if path is None:
            return None
        return found or checkpoint_finder.load(path, verify=False)

    def _find_checkpoint(self, source: Path) -> "Checkpoint | None":
        from marl.storage import checkpoint_finder
        from marl.storage.checkpoint import FOLDER

        config = self.config
        if config.load_model and config.load_model_run_episode is not None:
            return checkpoint_finder.load(checkpoint_finder.find_episode(source, config.load_model_run_episode))
        if (source / run_folder.CONFIG).is_file() and not config.load_model and checkpoint_finder.is_unsaved(source):
            return None  # the run was stopped before or during its first save: it starts again in its folder
        if (source / FOLDER).is_dir():
            return checkpoint_finder.load_newest(source)
        return checkpoint_finder.load(source)

    def check_unfinished(self, checkpoint: "Checkpoint", state: "TrainingState") -> str:
        """A message if the run has reached its limit and is closed, so that nothing is left to do; else empty.

        A UserError if the user has asked for more of this run. A start that resumes by itself, after a kill or queued
        again, is no mistake.
        """
        progress = state.progress
        message = {
            "": "",
            "pause": "",
            "max_episodes": f"{checkpoint.path} has all its {progress.episodes} episodes; "
            f"resume with --max_episodes above {progress.episodes}",
            "max_minutes": f"{checkpoint.path} has had its {progress.seconds / 60:.3g} minutes; "
            "resume with a higher --max_minutes",
        }[state.limit_reached()]
        if message and (self.config.load_model or (state.is_closed and self.resumes_by_path)):
            raise UserError(message)
        return message if state.is_closed else ""

    def existing_folder(self) -> Path | None:
        """The folder that this start will write to, if it is there already; None for a new one."""
        if self.earlier:
            return self.earlier.run
        config = self.config
        resumed = None if config.load_model else self.run
        if resumed is not None:
            return resumed
        named = run_folder.newest(config.runs_dir, config.run_name) if config.run_name else None
        return named if named and _is_unused(named) else None

    def choose_folder(self) -> Path:
        """The folder of the run: that of the resumed run, or a new one. For rank 0 only."""
        return self.existing_folder() or run_folder.create(self.config.runs_dir, self.config.run_name)

    def name_folder(self) -> Path:
        """The folder that choose_folder would give now, or its UserError; makes nothing."""
        return self.existing_folder() or run_folder.name_of_new(self.config.runs_dir, self.config.run_name)

    def take_folder(self, owner: RunOwner, group: "Solo | Ranks") -> None:
        """Let rank 0 own the folder before it is read; a collective. UserError if another start trains in it."""
        from marl.ranks.process_group import on_main

        problem: UserError | None = None

        def notify() -> None:
            if problem is not None:
                raise problem

        with group.keep_alive():  # an owner on another machine is watched for a while
            folder = self.existing_folder() if group.is_main else None
            try:
                if folder is not None:
                    owner.take(folder, self.known_launchers)
            except UserError as error:
                problem = error
        on_main(group, notify)

    @property
    def known_launchers(self) -> list[str]:
        """The launchers of all ranks; on rank 0, after with_relaunch."""
        return sorted({each for each in self.launchers if each})


def plan_resume(argv: Sequence[str]) -> ResumePlan:
    """The plan that the command line asks for."""
    config = read_config(argv, unread_flags=True)  # a resumed run brings its own learner
    if config.resume not in ("auto", "never"):
        # The path in place of a short name like `last`, also for the ranks: they must all resume the same run.
        found = str(find_named(config.resume, config.runs_dir))
        if found != config.resume:
            argv, config = [*argv, "--resume", found], replace(config, resume=found)
    opponents = with_paths(config.schedule.opponents)
    if config.init_from is not None and player_name(config.init_from) != config.init_from:
        argv = [*argv, "--init_from", player_name(config.init_from)]
    if opponents != config.schedule.opponents:  # the same for the ranks, and for a later start
        argv = [*argv, "--schedule.opponents", ",".join(opponents)]
    source = _find_source(config)
    plan = ResumePlan(tuple(argv), config, source)
    if relaunch.launcher() is None:  # under a launcher, with_relaunch checks: a relaunch does not need the path
        plan.check_path_exists()
    if source is not None and not source.exists():
        return plan
    return replace(plan, config=_read_config_of(argv, source))


def with_paths(opponents: Sequence[str]) -> tuple[str, ...]:
    """Named players, PLAYER:SHARE, with the paths of runs in place of their short names like `last`."""
    parts = (text.rpartition(":") for text in opponents)
    return tuple(f"{player_name(name)}:{fraction}" for name, _, fraction in parts)


def _find_source(config: TrainConfig) -> Path | None:
    """The folder of the run or checkpoint that the configuration names; None for a new run."""
    if config.load_model:
        number = config.load_model_run
        run = run_folder.newest(config.runs_dir) if number is None else run_folder.find_run(config.runs_dir, number)
        if run is None:
            raise UserError(f"--load_model: there is no run in {Path(config.runs_dir) / run_folder.GROUP}")
        return run
    if config.resume == "never":
        return None
    if config.resume != "auto":
        return Path(config.resume)
    named = run_folder.newest(config.runs_dir, config.run_name) if config.run_name else None
    return None if named is None or _is_unused(named) else named


def _read_config_of(argv: Sequence[str], source: Path | None) -> TrainConfig:
    """The configuration of the run that the source belongs to, changed by the flags."""
    run = None if source is None else run_folder.run_of(source)
    require_imports(run)
    return read_config(argv, None if run is None else run / run_folder.CONFIG)


def _is_unused(folder: Path) -> bool:
    """Whether a run folder has been made, but no run has been described in it yet."""
    return not ((folder / run_folder.CONFIG).exists() or (folder / "checkpoints").exists())

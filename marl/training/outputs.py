"""The outputs of a run: its folder, its metrics and its console."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.config import reader
from marl.metrics.console import Console, Quiet
from marl.metrics.run_metrics import Metrics, Silent
from marl.metrics.run_texts import flat_config, start_texts
from marl.ranks.process_group import on_main
from marl.storage import relaunch, run_folder
from marl.storage.run_imports import about_imports
from marl.storage.run_owner import RunOwner
from marl.training.progress import Progress
from marl.training.resume_plan import ResumePlan
from marl.training.training_state import TrainingState

if TYPE_CHECKING:
    from marl.training.cpu_setup import CpuSetup


@dataclass(frozen=True)
class RunOutputs:
    """Where a run writes. Only rank 0 has metrics and a console."""

    folder: Path
    metrics: Metrics | Silent = field(default_factory=Silent)
    console: Console | Quiet = field(default_factory=Quiet)
    callback: Callable[[dict[str, Any]], object] | None = None  # see ResumePlan

    def asks_to_stop(self, event: str, progress: Progress, values: Mapping[str, float]) -> bool:
        """Tell the callback of a log line or an evaluation, in plain values; whether it wants the run to end."""
        about = {"event": event, "episode": progress.episodes, "env_steps": progress.env_steps}
        answer = self.callback(about | {"seconds": progress.seconds} | {tag: float(values[tag]) for tag in values})
        return isinstance(answer, (bool, np.bool_)) and not answer


def open_outputs(
    plan: ResumePlan, state: TrainingState, cpu: "CpuSetup | None" = None, owner: RunOwner | None = None
) -> RunOutputs:
    """Choose or make the run folder, describe the run in it, and open metrics and console on rank 0. A collective.

    owner: takes the folder, unless it holds it already.
    """
    config, episodes = state.config, state.progress.episodes
    outputs: RunOutputs | None = None

    def open_on_main() -> Path:
        nonlocal outputs
        folder = plan.choose_folder()
        if owner is not None:
            owner.take(folder, plan.known_launchers)
        options = reader.to_dict(config)
        start = run_folder.about_start(["snakes", "train", *plan.argv], state.group.world)
        start |= {"whole_run": dict(plan.whole_run), "cpu": cpu and cpu._asdict(), **about_imports()}
        # At once: a relaunch finds the folder by the launchers that its run.json names.
        start["launch"] = relaunch.describe(folder, plan.source, plan.earlier, plan.launchers)
        run_folder.describe(folder, options, start)
        metrics = Metrics(
            folder,
            episodes if state.is_resumed else None,
            run_folder.GROUP if config.wandb else None,
            flat_config(options, config.learner_section),
            state.progress.env_steps,
        )
        text = (folder / run_folder.CONFIG).read_text("utf-8")
        metrics.describe(start_texts(text, start), config.evaluation.eval_opponents)
        console: Console | Quiet = Quiet()
        if not plan.quiet:
            console = Console(config.schedule.max_episodes, episodes, 60 * config.max_minutes)
        outputs = RunOutputs(folder, metrics, console, plan.callback)
        return folder

    folder = on_main(state.group, open_on_main)
    return outputs or RunOutputs(folder)

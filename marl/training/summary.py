"""Texts for the user of a training run: the banner at the start and the summary at the end."""

import math
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.control_groups import free_memory
from marl import registry
from marl.cli.invocation import command, interpreter
from marl.cli.wording import count, duration, size_text
from marl.compute.machine import usable_cores
from marl.config.evaluation_plan import describe_plan
from marl.ranks.environment import ranks_on_this_node, read_rank_environment
from opponents.scheduler import BY_PROGRESS, ROUNDING

if TYPE_CHECKING:
    from marl.config.train_config import TrainConfig
    from marl.networks.spec import NetworkSpec
    from marl.rollout.assignment import MatchAssignment
    from marl.storage.checkpoint import Checkpoint
    from marl.training.checkpointing import CheckpointSize
    from marl.training.cpu_setup import CpuSetup
    from marl.training.profiling import CycleProfile
    from marl.training.trainer import Trainer
    from opponents.scheduler import ScheduleConfig

GPU_MATCHES = 4096  # per rank; the automatic number on a GPU
WORKING_MEMORY = 256 << 20  # bytes of a rank beside its buffer: compiling takes the most of it
CURVE, BEST_MATCH = "curve.png", "best_match.jsonl"


def banner(
    trainer: "Trainer", resumed: "Checkpoint | None", cpu: "CpuSetup | None", settings: dict[str, str]
) -> list[tuple[str, str]]:
    """Rows (name, value) about the run that is about to start."""
    import torch

    from marl.fast.compiled_text import compiles
    from marl.training.checkpointing import checkpoint_size

    state = trainer.state
    config, group, buffer, learner = state.config, state.group, state.buffer, state.learner
    on_gpu = group.device.type == "cuda"
    device = f"{torch.cuda.get_device_name(group.device)} ({group.device})" if on_gpu else "CPU"
    device += ", compiled" if on_gpu and compiles(config, learner, group.world) else ""
    weights = sum(p.numel() for p in learner.actor.parameters())
    body = " -> ".join(_layers(learner.spec))
    held = 3 * buffer.turns * buffer.teams
    size = f"{held:,} transitions, {buffer.bytes / 2**20:,.0f} MiB on {buffer.storage}"
    all_matches = f" per rank, {state.rollout.all_matches:,} in all" if group.world > 1 else ""
    schedule = mix_text(config.schedule, _about_schedule(config))
    lines = [
        ("run", str(trainer.outputs.folder)),
        ("device", f"{device}, {config.precision}" + (f", {cpu}" if cpu else "")),
        *([("ranks", f"{group.world} over {group.transport}{_meeting_point(group.world)}")] if group.backend else []),
        ("learner", config.algo),
        ("network", f"{config.network.encoder} -> {body}, {weights:,} weights in the actor"),
        ("matches", f"{config.matches:,}{all_matches}"),
        ("batch", _batch(3 * learner.batch_turns, group.world, config.ddp.sync_freq)),
        ("cycle", f"{count(learner.turns, 'turn')}, {count(learner.updates, 'update')}"),
        ("learning rates", learner.lr_text() + _lr_changes(config)),
        ("buffer", size + (f" per rank, {held * group.world:,} transitions in all" if group.world > 1 else "")),
        ("checkpoints", checkpoints_text(checkpoint_size(state), config.keep_last, config.save_buffer)),
        ("opponents", schedule + _others(state.rollout.assignment)),
        ("evaluation", describe_plan(state.evaluation_plan, config)),
    ]
    if settings and group.backend == "nccl":
        lines.append(("set for NCCL", " ".join(f"{name}={value}" for name, value in settings.items())))
    if resumed:
        exactly = "bit-exactly" + ", except what submissions remember" * state.named.has_submissions
        how = exactly if state.is_exact else "with new matches and a new buffer"
        lines.append(("resumed from", f"{resumed.path} (episode {resumed.episode:,}), {how}"))
    notes = device_notes(config, group.device.type) + schedule_notes(config)
    if buffer.storage.type == "cpu":
        notes += memory_notes(buffer.bytes, free_memory(), ranks_on_this_node())
    return lines + [("note", note) for note in notes]


def checkpoints_text(size: "CheckpointSize", keep_last: int, save_buffer: int) -> str:
    """How large checkpoints become, and which of them a run resumes from bit by bit."""
    from marl.storage.checkpoint_writer import KEPT_IN_OLDER

    last = "the last" + f" {keep_last}" * (keep_last > 1)
    kept = f"{last} and the best are kept" if keep_last else "all are kept"
    with_ranks, without = size_text(size.shared + size.ranks), size_text(size.shared)
    if size.left_out:
        return (
            f"{without} each, {kept}; without the buffer of {size_text(size.left_out)}, which a resumed run fills "
            f"again with new matches (--save_buffer {save_buffer})"
        )
    if size.ranks <= KEPT_IN_OLDER:
        return f"{with_ranks} each, {kept}; a run resumes bit by bit"
    return (
        f"the newest up to {with_ranks} with matches and buffer, to resume bit by bit; older ones {without}, {kept} "
        "(--save_buffer 0: none has a buffer)"
    )


def _meeting_point(world: int) -> str:
    """Where ranks of several machines meet: who reaches that address and the ports of gloo or NCCL can join in."""
    found = read_rank_environment()
    if found is None or found.local_world == world:
        return ""
    return f"; they meet at {found.master_addr}:{found.master_port}, without any password (see SECURITY.md)"


def device_notes(config: "TrainConfig", device: str) -> list[str]:
    """Remarks about a run on the CPU: one that its user may have meant for a GPU, or more threads than cores."""
    notes, cores = [], usable_cores()
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if device == "cpu" and config.device == "auto" and wanted and wanted != "-1":
        notes.append(f"CUDA_VISIBLE_DEVICES is {wanted}, but torch sees no GPU here")
    if device == "cpu" and config.matches is not None and config.matches >= GPU_MATCHES:
        notes.append(
            f"{config.matches:,} matches per rank are sized for a GPU, and very slow on a CPU; try --config base"
        )
    if device == "cpu" and config.threads is not None and config.threads > cores:
        notes.append(f"{config.threads} threads on {count(cores, 'core')}: more threads than cores are slow")
    return notes


def schedule_notes(config: "TrainConfig") -> list[str]:
    """Remarks about a schedule of opponents that the limits of the run change or cut off."""
    schedule, notes = config.schedule, []
    if 1 - sum(schedule.shares.values()) - schedule.self_play <= ROUNDING:
        return []  # nobody plays it
    if config.max_minutes and (schedule.strategy in BY_PROGRESS or schedule.evades):
        notes.append(
            f"the run ends after {config.max_minutes:g} min of training: opponents change by its minutes where these "
            f"are further than its {schedule.max_episodes:,} episodes"
        )
    if schedule.evades and schedule.opponent_evasion_start_episode >= schedule.max_episodes:
        notes.append(
            f"the evasive opponent is never met: it begins at episode {schedule.opponent_evasion_start_episode:,}, and "
            f"the run ends at {schedule.max_episodes:,}; give a smaller --opponent_evasion_start_episode"
        )
    return notes


def _about_schedule(config: "TrainConfig") -> str:
    """The length of the schedule, in words."""
    schedule = config.schedule
    minutes = f" or {config.max_minutes:g} min" if config.max_minutes else ""
    evasion = f", evasive from episode {schedule.opponent_evasion_start_episode:,}" if schedule.evades else ""
    return f" over {schedule.max_episodes:,} episodes{minutes}{evasion}"


def memory_notes(buffer_bytes: int, free: int, ranks: int) -> list[str]:
    """A warning if the memory that is free, in bytes, may not be enough for these ranks of one machine."""
    need = ranks * (buffer_bytes + WORKING_MEMORY)
    if free >= need:
        return []
    return [
        f"{free >> 20:,} MiB of memory are free, and training may need {need >> 20:,} MiB more; if it is killed, raise "
        "the limit, or give a smaller --buffer_size and fewer --matches"
    ]


def mix_text(schedule: "ScheduleConfig", about_schedule: str = "") -> str:
    """The shares of named players and of the schedule, or the schedule alone."""
    text = schedule.strategy + about_schedule
    if not schedule.shares:
        return text
    parts = [f"{100 * share:.3g} % {name}" for name, share in schedule.shares.items()]
    rest = 1 - sum(schedule.shares.values()) - schedule.self_play
    return ", ".join([*parts, f"{100 * rest:.3g} % {text}"] if rest > ROUNDING else parts)


def summarise(trainer: "Trainer", ended: str, seconds: float, trained_before: float = 0.0) -> None:
    """Print the results and the paths of all files; write the curve and the best match.

    `seconds` are those of this start; `trained_before` are the seconds of training before it, of a resumed run.
    """
    from arena.replay import write
    from marl.metrics.run_metrics import read_lines
    from marl.pictures.learning_curve import draw
    from marl.storage.checkpoint import BEST
    from marl.storage.checkpoint_finder import resolve

    progress, folder, console = trainer.state.progress, trainer.outputs.folder, trainer.outputs.console
    if ended == "pause":
        console.note(f"paused at episode {progress.episodes:,}")
        return
    if ended in ("signal", "callback"):
        again = command("train", "--resume", folder)
        who = {"signal": "a signal", "callback": "the callback"}[ended]
        console.note(f"stopped by {who} at episode {progress.episodes:,}; resume with: {again}")
        return
    rows: list[Sequence[Any]] = [("against", "won", "95 % interval", "mean score")]
    for name, result in trainer.evaluation.results.items():
        interval = f"{result.win_rate_low:.1%} to {result.win_rate_high:.1%}"
        score = f"{result.home_score:.1f} : {result.away_score:4.1f}"  # right-aligned: the colons line up
        rows.append((name, f"{result.win_rate:.1%}", interval, score))
    console.summary("at the end", rows)
    if rows := trainer.rank_gauges.summary():
        console.summary("ranks", rows)
    curve = draw(folder.name, read_lines(folder))
    if curve is not None:
        curve.save(folder / CURVE, compress_level=1)  # 30 ms instead of 60, 60 kB instead of 43
    replay = trainer.evaluation.best_replay
    if replay is not None:
        write(folder / BEST_MATCH, replay)
    rate = progress.env_steps / max(1e-9, progress.seconds)
    best = resolve(folder, prefer=BEST)
    console.banner(
        [
            ("time", _times(seconds, progress.seconds - trained_before, trained_before)),
            ("episodes", f"{progress.episodes:,}"),
            ("env steps", f"{progress.env_steps:,} ({rate:,.0f} per second)"),
            ("updates", f"{progress.updates:,}"),
            ("checkpoints", _checkpoints(trainer)),
            ("best", str(best)),
            ("last", str(resolve(folder))),
            ("best match", str(folder / BEST_MATCH)),
            ("curve", str(folder / CURVE)),
            *([("profile", _profile(trainer.profile))] if trainer.state.config.profile else []),
        ],
    )
    console.commands(_next_commands(trainer.state.config, folder, ended))
    results = {"episodes": progress.episodes, "env_steps": progress.env_steps, "seconds": progress.seconds}
    trainer.outputs.metrics.summarise(results | {"best_points": progress.best} | trainer.evaluation.metrics())


def _profile(profile: "CycleProfile") -> str:
    """Where the trace is, or why there is none."""
    from marl.training.profiling import VIEWER

    return f"{profile.file} (open it at {VIEWER})" if profile.is_written else "none: the run had too few cycles"


def _next_commands(config: "TrainConfig", folder: Path, ended: str) -> list[tuple[str, str]]:
    """Commands for a finished run. None of them needs a display."""
    page = Path(BEST_MATCH).with_suffix(".html")  # in the current folder
    more = [] if ended == "max_minutes" else ["--max_episodes", str(2 * config.schedule.max_episodes)]
    if config.max_minutes:
        more += ["--max_minutes", str(max(2, math.ceil(2 * config.max_minutes)))]
    return [
        ("look at it", command("replay", folder / BEST_MATCH, "--html", page)),
        ("measure it", command("eval", "--home", folder, "--away", "level2")),
        ("all curves", f"{interpreter()} -m tensorboard.main --logdir {shlex.quote(str(folder.parent))}"),
        ("resume it", command("train", "--resume", folder, *more)),
    ]


def _times(seconds: float, trained: float, trained_before: float) -> str:
    """The time of this start, the training in it, and the training of the whole run."""
    text = f"{duration(seconds)} ({duration(trained)} of training)"
    if not trained_before:
        return text
    return f"{text} since it was resumed; {duration(trained_before + trained)} of training in all"


def _batch(rows: int, ranks: int, sync_freq: int) -> str:
    """Snake transitions in a batch; with several ranks or accumulated batches, also the product."""
    factors = [f"{ranks} ranks"] * (ranks > 1) + [f"sync_freq {sync_freq}"] * (sync_freq > 1)
    product = f" = {rows * ranks * sync_freq:,}" if factors else ""
    return " x ".join([f"{rows:,}", *factors]) + f"{product} snake transitions"


def _lr_changes(config: "TrainConfig") -> str:
    """How learning rates differ from those configured, at many ranks and at the start."""
    scaling, updates = config.ddp.lr_scaling, config.ddp.lr_warmup
    return f"; scaling {scaling}" * (scaling != "none") + f"; warm-up {updates} updates" * (updates > 0)


def _checkpoints(trainer: "Trainer") -> str:
    """How many were written, and what they have cost."""
    from marl.storage.checkpoint import FOLDER

    saver = trainer.saver
    left_out = f" ({saver.left_out} skipped: the disk was busy)" if saver.left_out else ""
    each = 1000 * trainer.save_seconds / max(1, saver.saved)
    files = (trainer.outputs.folder / FOLDER).rglob("*")
    size = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
    waited = f"training waited {trainer.save_seconds:.1f} s for them, {each:.0f} ms each"
    return f"{saver.saved}{left_out}; {waited}; {size:,.0f} MB on disk"


def _others(assignment: "MatchAssignment") -> str:
    """Shares of the matches against the team itself and its past selves."""
    itself, past = len(assignment.self_play_both) + len(assignment.self_play_one), sum(map(len, assignment.past_selves))
    shares = [
        (itself, f"itself{', learning on both sides' if assignment.self_play_both else ''}"),
        (past, "its past selves"),
    ]
    return "".join(f"; {count / assignment.matches:.0%} against {whom}" for count, whom in shares if count)


def _layers(spec: "NetworkSpec") -> list[str]:
    """The layers of an actor, in words."""
    first, *rest = map(str, spec.body)
    stem = [first]
    if spec.stem == "cnn":
        stem = [*(f"convolution {channels}" for channels in spec.channels), first]
    elif spec.stem != "mlp":  # what is in it, only its class knows
        stem = [f"{spec.stem} ({registry.load(registry.NETWORKS, spec.stem).__name__}) {first}"]
    messages = ["messages"] if spec.messages else []
    return [*stem, *messages, *rest, *([f"LSTM {spec.lstm_size}"] if spec.lstm_size else [])]

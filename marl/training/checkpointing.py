"""The contents of a checkpoint of training, and the way back: a training state to and from dictionaries.

A checkpoint has the weights, one part `state` that is the same for all ranks, and one part per rank with its matches
and its buffer. The keys of these dictionaries are a file format: checkpoints of earlier versions must load.
"""

from dataclasses import asdict
from typing import Any, NamedTuple

import torch

from arena.encoders import encoder_named
from arena.errors import ArenaError
from marl.config.train_config import TrainConfig
from marl.config.values import as_written
from marl.errors import UserError
from marl.networks.policy import describe_actor
from marl.planning.planned_player import load_player
from marl.ranks.process_group import Ranks, Solo, on_main
from marl.rewards import RewardWeights
from marl.storage.checkpoint import ENV_STEPS, MILESTONE, Checkpoint, CheckpointError
from marl.storage.policy_player import PolicyPlayer
from marl.storage.saver import on_host
from marl.training.past_selves import POOL, read_pool
from marl.training.progress import Progress
from marl.training.training_state import TrainingState
from opponents.players import find

# --- saving


def shared_part(state: TrainingState, closed: bool) -> dict[str, Any]:
    """The part `state`, the same for all ranks. closed: saved at the end of the run."""
    return {
        "progress": asdict(state.progress),
        "first": asdict(state.first),
        "logged": asdict(state.logged),
        "marks": dict(state.marks),
        "learner": on_host(state.learner.state_dict()),
        "schedule": state.scheduler.state_dict(),
        "past_selves": state.past_selves.state_dict(),
        "onednn": bool(torch.backends.mkldnn.enabled),  # it rounds differently
        "closed": closed,
    }


def rank_part(state: TrainingState) -> dict[str, Any] | None:
    """This rank's matches and buffer, copied on the host; None if they are larger than save_buffer."""
    if state.learner.rank_state_bytes > state.config.save_buffer * 2**20:
        return None
    tensors = {"learner": state.learner.rank_state(), "places": [frozen.hidden for frozen in state.frozen_seats]}
    return {"fits": _match_settings(state), "rollout": state.rollout.state_dict(), **on_host(tensors)}


class CheckpointSize(NamedTuple):
    """Bytes of a checkpoint of all ranks, once the buffer is full."""

    shared: int  # weights, optimizers
    ranks: int  # matches and buffers; 0 if they are not saved
    left_out: int  # buffers that are not saved: they are larger than save_buffer


def checkpoint_size(state: TrainingState) -> CheckpointSize:
    """How large the checkpoints of a run become."""
    learner, world = state.learner, state.group.world
    averages = [(each.exp_avg, each.exp_avg_sq) for each in learner.optimizers().values()]
    shared = _bytes_of(dict(learner.named_weights())) + _bytes_of(averages)
    if learner.rank_state_bytes > state.config.save_buffer * 2**20:
        return CheckpointSize(shared, 0, learner.rank_state_bytes * world)
    return CheckpointSize(shared, (learner.rank_state_bytes + _bytes_of(state.rollout.state_dict())) * world, 0)


def _bytes_of(value: Any) -> int:
    """Of all tensors in nested dictionaries and lists."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(map(_bytes_of, value.values()))
    return sum(map(_bytes_of, value)) if isinstance(value, list | tuple) else 0


def manifest_fields(state: TrainingState) -> dict[str, Any]:
    """What the manifest says of the team and of the run."""
    actor = describe_actor(state.encoder, state.learner.spec, RewardWeights(*state.config.reward.weights()))
    run = {"algo": state.config.algo, "world_size": state.group.world, ENV_STEPS: state.progress.env_steps}
    return actor | run | {POOL: list(state.past_selves.pool), MILESTONE: state.is_milestone}


# --- restoring


def build_state(config: TrainConfig, group: Solo | Ranks, checkpoint: Checkpoint | None) -> TrainingState:
    """The state of a new run, or of a resumed one. A collective; a checkpoint that does not fit is a UserError."""
    if checkpoint is None:
        state = TrainingState(config, group)
        if config.init_from is not None:
            _start_from_player(state, config.init_from)
        return state
    try:
        return _restored(config, group, checkpoint)
    except (LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{checkpoint.path} is damaged: state.pt holds something else than a run's state "
            f"({type(error).__name__}: {error}); use another checkpoint of this run"
        ) from error


def _restored(config: TrainConfig, group: Solo | Ranks, checkpoint: Checkpoint) -> TrainingState:
    saved = checkpoint.part("state")
    progress = Progress(**saved["progress"])
    if config.load_model:
        progress.best = Progress.best  # that was the best of another run
    state = TrainingState(config, group, progress, checkpoint.path.parents[1])
    state.is_resumed, state.is_closed = True, saved["closed"]
    state.is_milestone = bool(checkpoint.manifest.get(MILESTONE))
    _restore_team(state, checkpoint, saved)
    state.is_exact = restore_matches(state, checkpoint)
    if state.is_exact:
        state.first = Progress(**saved.get("first", asdict(progress)))
        state.logged = Progress(**saved.get("logged", asdict(progress)))
        state.marks |= saved.get("marks") or {}
    return state


def _start_from_player(state: TrainingState, name: str) -> None:
    """Give the actor the weights of a player's policy."""

    def read() -> dict[str, torch.Tensor]:
        player = find(name, load_player)
        player.close()
        if not isinstance(player, PolicyPlayer):
            raise UserError(f"init_from: {name} is no policy; allowed: a champion, run, checkpoint or snapshot")
        own = describe_actor(state.encoder, state.learner.spec)
        differing = {key: value for key, value in _network_of(player).items() if value != own[key]}
        if differing:
            found = ", ".join(
                f"{key} {as_written(value)} (not {as_written(own[key])})" for key, value in differing.items()
            )
            raise UserError(f"init_from: {name} has another network than these flags ask for: {found}")
        return on_host(dict(player.actor.state_dict()))

    state.learner.actor.load_state_dict(on_main(state.group, read))


def _network_of(player: PolicyPlayer) -> dict[str, Any]:
    about = describe_actor(player.encoder, player.actor.spec)
    return {key: value for key, value in about.items() if key != "kind"}  # empty in old files


def _restore_team(state: TrainingState, checkpoint: Checkpoint, saved: dict[str, Any]) -> None:
    """Weights, optimizers, results by opponent, and past selves."""
    try:
        state.learner.load_weights(checkpoint.weights)
        state.learner.load_state_dict(saved["learner"])
    except Exception:  # torch's own message names every tensor; a damaged file may raise anything
        raise UserError(
            f"{checkpoint.path} holds other networks than these flags ask for; leave out --algo, --critic, "
            "--critic_form, --twin and all flags of the network to resume with its own, or start a new run"
        ) from None
    if saved["schedule"]["strategy"] == state.scheduler.config.strategy:  # another strategy starts from its beginning
        state.scheduler.load_state_dict(saved["schedule"])
        run, names = checkpoint.path.parents[1], saved["past_selves"]["pool"]
        pool = on_main(state.group, lambda: read_pool(run, names))
        state.past_selves.load_state_dict(saved["past_selves"], pool)


def restore_matches(state: TrainingState, checkpoint: Checkpoint) -> bool:
    """Continue the matches and the buffer of the checkpoint, if all ranks can; returns whether they do."""
    part = _part_of_this_rank(state, checkpoint)
    if state.group.any(_current_names(part.get("fits")) != _match_settings(state) or not _has_rows_of(state, part)):
        return False
    state.rollout.load_state_dict(part["rollout"])
    state.learner.load_rank_state(part["learner"])
    for frozen, hidden in zip(state.frozen_seats, part["places"], strict=True):
        if hidden is not None:
            frozen.hidden.copy_(hidden)
    return True


def _part_of_this_rank(state: TrainingState, checkpoint: Checkpoint) -> dict[str, Any]:
    """What the checkpoint holds of this rank's matches and buffer; empty if it does not have them."""
    name = f"rank{state.group.rank}"
    if checkpoint.manifest["world_size"] != state.group.world or name not in checkpoint.parts:
        return {}
    return checkpoint.part(name)


def _has_rows_of(state: TrainingState, part: dict[str, Any]) -> bool:
    """Whether a saved buffer's rows are as wide as this one's: earlier versions packed them on a GPU."""
    saved = part["learner"].get("buffer")
    return saved is None or saved["observations"].shape[1:] == state.buffer.obs.shape[1:]


def _match_settings(state: TrainingState) -> dict[str, Any]:
    """The settings that matches and buffer depend on: a checkpoint with others cannot be continued exactly."""
    config, assignment = state.config, state.rollout.assignment
    named = {name: len(slots) for name, slots in zip(state.named.names, assignment.named, strict=True)}
    return ({"named": named} if named else {}) | {
        "seed": config.seed,
        "matches": assignment.matches,
        "turns": state.buffer.turns,
        "encoder": state.encoder.name,
        "encoder_version": state.encoder.version,
        "both": len(assignment.self_play_both),
        "alone": len(assignment.self_play_one),
        "past": len(assignment.past_selves),
        "rewards": config.reward.weights(),
        "opponents": list(state.rollout.opponents),
    }


def _current_names(settings: dict[str, Any] | None) -> dict[str, Any] | None:
    """Saved match settings with the encoder's present name: earlier versions had other names."""
    try:
        return settings and settings | {"encoder": encoder_named(settings["encoder"]).name}
    except ArenaError:  # unknown, so it fits nothing
        return settings

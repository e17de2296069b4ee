"""Replaces every `auto` of a configuration by a value for the device of the run.

With `ddp.scaling strong` the sizes in SPLIT are chosen for the whole run and divided by the number of ranks: matches,
batch and updates per episode are those of one rank, so that more ranks train the same team sooner. Per rank (weak), 8
ranks made an eighth of the updates in 20,000 episodes and won 75 % instead of 86 % against level2
(docs/log/scaling.md).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from arena import control_groups
from arena.encoders import encoder_named
from arena.rules import TEAM
from marl.cli.wording import count
from marl.config.learner_configs import PpoConfig, ReplayConfig
from marl.config.sections import MODEL_SIZES
from marl.config.train_config import TrainConfig, value_at
from marl.errors import UserError
from opponents.scheduler import EPISODES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

# The values that learn best per second, measured on two Neoverse-N1 cores and on one H200.
CPU = {"encoder": "tactical", "body": (128, 128), "max_episodes": EPISODES}
GPU = {"encoder": "tactical_board", "body": (512, 256), "max_episodes": EPISODES}
CPU_REPLAY = CPU | {"matches": 256, "batch_size": 1024, "buffer_size": 1_000_000, "turns": 4, "updates": 3}
GPU_REPLAY = GPU | {"matches": 4096, "batch_size": 16384, "buffer_size": 2_000_000, "turns": 4, "updates": 5}
AUTO = {  # (device, section of the learner) -> values by plain name
    ("cpu", "ddpg"): CPU_REPLAY | {"updates": 1, "a_lr": 2e-3, "c_lr": 2.5e-3},
    ("cuda", "ddpg"): GPU_REPLAY | {"a_lr": 1.5e-3, "c_lr": 1.5e-3},
    ("cpu", "qlearning"): CPU_REPLAY,
    ("cuda", "qlearning"): GPU_REPLAY,
    ("cpu", "ppo"): CPU | {"matches": 512, "batch_size": 6144, "lr": 6e-3},
    ("cuda", "ppo"): GPU | {"matches": 8192, "batch_size": 65536, "lr": 2e-3},
}
# Device -> the values with --max_utilization, as large as memory and cores allow; a larger default stays.
LARGEST: dict[str, dict[str, Any]] = {
    "cpu": {"body": (256, 256), "matches": 1024, "batch_size": 4096, "buffer_size": 8_000_000},
    "cuda": {"body": (1024, 512), "matches": 16384, "batch_size": 32768, "buffer_size": 30_000_000},
}
PPO_TURNS = 16  # of each match in a rollout
UNIFORM_KL = 0.02  # with an encoder that rotates the board
BUFFER_SHARE = 0.5  # of the free memory, for a replay buffer of automatic size
SPLIT = ("matches", "batch_size", "buffer_size")  # plain names of the sizes that the ranks share
# Snake transitions: 8 turns of 3 snakes. DDPG rounds batches up to it, which would add up to 24 per rank.
BATCH_STEP = 24
MIN_BUFFER_TURNS = 16  # turns in the smallest replay buffer of automatic size, in addition to those of one target


def resolve(config: TrainConfig, device: torch.device, sharing: int = 1, world: int = 1) -> TrainConfig:
    """The configuration with every `auto` replaced by a value. `sharing`: ranks that share the device's memory."""
    auto = _defaults(config, "cuda" if device.type == "cuda" else "cpu")
    if _splits(config):
        split = SPLIT if config.matches is None else SPLIT[1:]  # too many ranks are an error only for automatic matches
        auto |= {name: per_rank(name, auto[name], world) for name in split if name in auto}
    _check_precision(config.precision, device)
    network = _filled(config.network, auto)
    auto["uniform_kl"] = 0.0 if encoder_named(network.encoder).orientation_at is None else UNIFORM_KL
    config = replace(_filled(config, auto), network=network, schedule=_filled(config.schedule, auto))
    if config.learner_section == "ppo":
        config = replace(config, ppo=_ppo(config, auto, world))
    else:
        config = _set(config, config.learner_section, _with_replay(config, auto, device, sharing))
    return config


def whole_run_sizes(config: TrainConfig, device: torch.device) -> dict[str, int]:
    """Path -> size for the whole run, for each option of this learner that `resolve` splits over the ranks."""
    if not _splits(config):
        return {}
    auto = _defaults(config, "cuda" if device.type == "cuda" else "cpu")
    return automatic(config, {path: auto[name] for name, path in _split_paths(config).items() if name in auto})


def automatic(config: TrainConfig, sizes: Mapping[str, int]) -> dict[str, int]:
    """Those of the sizes, by path, whose option is `auto` in the configuration."""
    return {
        path: sizes[path] for path in _split_paths(config).values() if path in sizes and value_at(config, path) is None
    }


def given_sizes(config: TrainConfig) -> list[str]:
    """Paths of the sizes in SPLIT that the user has given: they are per rank."""
    return [path for path in _split_paths(config).values() if value_at(config, path) is not None]


def split_again(config: TrainConfig, sizes: Mapping[str, int], world: int) -> TrainConfig:
    """The configuration with these sizes of a whole run (whole_run_sizes) divided by another number of ranks.

    The buffer's size becomes `auto`: it depends on the memory of the machine as well.
    """
    for name, path in _split_paths(config).items():
        if path in sizes:
            config = _set(config, path, None if name == "buffer_size" else per_rank(name, sizes[path], world))
    return config


def per_rank(name: str, size: int, world: int) -> int:
    """A size of the whole run for one rank. Matches are even and at least 2, a batch is whole BATCH_STEPs."""
    if world == 1:
        return size
    if name == "buffer_size":
        return max(1, size // world)
    if name == "batch_size":
        return BATCH_STEP * max(1, round(size / world / BATCH_STEP))
    if size < 2 * world:
        raise UserError(
            f"{count(world, 'rank')} cannot share {size} matches, at least 2 each; allowed: up to {size // 2} ranks "
            "(or give --matches, or --scaling weak)"
        )
    return 2 * round(size / 2 / world)


def _splits(config: TrainConfig) -> bool:
    # --max_utilization fills each device, so its sizes are per rank.
    return config.ddp.scaling == "strong" and not config.max_utilization


def _split_paths(config: TrainConfig) -> dict[str, str]:
    """Plain name -> path of the sizes that the ranks share."""
    section = config.learner_section
    sizes = {name: f"{section}.{name}" for name in SPLIT if hasattr(getattr(config, section), name)}
    return {"matches": "matches", **sizes}


def _set(config: TrainConfig, path: str, value: Any) -> TrainConfig:
    section, _, name = path.rpartition(".")
    if not section:
        return replace(config, **{name: value})
    return replace(config, **{section: replace(getattr(config, section), **{name: value})})


def _defaults(config: TrainConfig, device: str) -> dict[str, Any]:
    """The value of each option, by its plain name, for the case that the option is `auto`."""
    auto = dict(AUTO[device, config.learner_section])
    if config.max_utilization:
        auto |= {name: max(size, auto.get(name, size)) for name, size in LARGEST[device].items()}
    auto["precision"] = "bf16" if device == "cuda" and torch.cuda.is_bf16_supported() else "fp32"
    if config.network.kind == "cnn":
        auto["encoder"] = "planes"
    if config.network.model_size is not None:
        auto["body"] = MODEL_SIZES[config.network.model_size]
    return auto


def _filled(config: T, auto: dict[str, Any]) -> T:
    """The dataclass with each None replaced by the value of the same name, if there is one."""
    return replace(config, **{n: value for n, value in auto.items() if getattr(config, n, value) is None})


def _check_precision(precision: str | None, device: torch.device) -> None:
    if device.type == "cuda" or precision in (None, "fp32"):
        return
    if precision == "fp16" or not _cpu_has_bf16():
        raise UserError(f"precision is {precision}, which this CPU does not support; use --precision fp32 or auto")


def _with_replay(config: TrainConfig, auto: dict[str, Any], device: torch.device, sharing: int) -> ReplayConfig:
    """The section of a learner with a replay buffer."""
    name, freq = config.learner_section, config.ddp.sync_freq
    section: ReplayConfig = getattr(config, name)
    auto["updates"] = _multiple(auto["updates"], freq * section.period)
    teams = 2 * config.matches if config.schedule.self_play else config.matches  # at the most
    least = (section.n_step + 1) * teams * TEAM
    if section.buffer_size is None:
        row = encoder_named(config.network.encoder).width + 6  # bytes of a transition
        fitting = min(auto["buffer_size"], int(BUFFER_SHARE * free_memory(device) / row / sharing))
        auto["buffer_size"] = max(fitting, least + MIN_BUFFER_TURNS * teams * TEAM)
    section = _filled(section, auto)
    if section.updates % (freq * section.period):
        reasons = f"ddp.sync_freq {freq}" + (f" and {name}.policy_delay {section.period}" if section.period > 1 else "")
        allowed = f"allowed with {reasons}: a multiple of {freq * section.period}"
        raise UserError(f"{name}.updates is {section.updates}; {allowed}")
    if section.buffer_size < least:
        raise UserError(
            f"{name}.buffer_size is {section.buffer_size}; allowed: from {least}, {section.n_step + 1} turns of "
            f"{config.matches} matches (or fewer matches)"
        )
    return section


def _ppo(config: TrainConfig, auto: dict[str, Any], world: int) -> PpoConfig:
    env_steps = config.matches * world  # of one turn
    auto["update_interval"] = PPO_TURNS * env_steps
    ppo = _filled(config.ppo, auto)
    if ppo.target_kl and config.precision == "fp16":
        raise UserError("ppo.target_kl skips steps, which fp16 with its loss scaling does not allow; use bf16 or fp32")
    if ppo.update_interval < env_steps:
        raise UserError(
            f"ppo.update_interval is {ppo.update_interval}; allowed: from {env_steps}, one turn of all matches of "
            f"{count(world, 'rank')} (or fewer matches)"
        )
    return ppo


def free_memory(device: torch.device) -> int:
    """Free bytes of the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return control_groups.free_memory()


def _cpu_has_bf16() -> bool:
    # Without bf16 instructions torch converts to fp32 and back, many times slower.
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _multiple(number: int, of: int) -> int:
    """The number, rounded up to a multiple."""
    return -(-number // of) * of

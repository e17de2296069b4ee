"""Chooses what a configuration leaves to `auto`, for the device that the run is on."""

from dataclasses import replace

import torch

from arena import batch
from arena.encoders import encoder_named
from arena.rules import TEAM
from marl.config.schema import MODEL_SIZES, DdpgConfig, PpoConfig, TrainConfig
from marl.errors import UserError
from marl.wording import count
from opponents.scheduler import EPISODES

# What learns best per second: measured on two Neoverse-N1 cores and on one H200.
CPU = {"encoder": "canonical", "body": (128, 128), "matches": 256}
GPU = {"encoder": "planes", "body": (512, 256), "matches": 4096}
CPU_DDPG = {"batch_size": 1024, "buffer_size": 1_000_000, "turns": 4, "updates": 3}
GPU_DDPG = {"batch_size": 8192, "buffer_size": 2_000_000, "turns": 4, "updates": 10}
CPU_PPO = {"matches": 512, "batch_size": 3072, "lr": 3e-3, "max_episodes": 100_000}
GPU_PPO = {"batch_size": 65536, "lr": 2e-3, "matches": 8192}
PPO_TURNS = 16  # between updates
UNIFORM_KL = 0.02  # with an encoder that turns the board
# What --max_utilization asks for instead: as wide as memory and cores allow.
CPU_LARGEST = {"body": (256, 256), "matches": 1024, "batch_size": 4096, "buffer_size": 8_000_000}
GPU_LARGEST = {"body": (1024, 512), "matches": 16384, "batch_size": 32768, "buffer_size": 30_000_000}
BUFFER_SHARE = 0.5  # of the free memory that a buffer chosen here may take
SMALL_FEWEST_TURNS = 16  # turns that a buffer holds at the least, beyond those of a target


def resolve(config: TrainConfig, device: torch.device, sharing: int = 1, world: int = 1) -> TrainConfig:
    """The configuration with every `auto` replaced by a value. `sharing`: ranks that share the device's memory."""
    on_gpu, ddpg = device.type == "cuda", config.algo == "ddpg"
    auto = (GPU | (GPU_DDPG if ddpg else GPU_PPO)) if on_gpu else (CPU | (CPU_DDPG if ddpg else CPU_PPO))
    if config.max_utilization:
        auto |= GPU_LARGEST if on_gpu else CPU_LARGEST
    network = config.network
    board = "planes" if network.kind == "cnn" else None
    named = MODEL_SIZES[network.model_size] if network.model_size else None
    network = replace(
        network, encoder=network.encoder or board or auto["encoder"], body=network.body or named or auto["body"]
    )
    precision = config.precision or ("bf16" if on_gpu and torch.cuda.is_bf16_supported() else "fp32")
    if not on_gpu and (precision == "fp16" or (precision == "bf16" and not _cpu_has_bf16())):
        raise UserError(f"precision is {precision}; this CPU calculates in fp32")
    episodes = config.schedule.max_episodes or auto.get("max_episodes", EPISODES)
    config = replace(
        config,
        matches=config.matches or auto["matches"],
        precision=precision,
        network=network,
        schedule=replace(config.schedule, max_episodes=episodes),
    )
    auto |= {"uniform_kl": 0.0 if encoder_named(network.encoder).orientation_at is None else UNIFORM_KL}
    if ddpg:
        return replace(config, ddpg=_ddpg(config, auto, device, sharing))
    return replace(config, ppo=_ppo(config, auto, world))


def _ddpg(config: TrainConfig, auto: dict, device: torch.device, sharing: int) -> DdpgConfig:
    matches, freq = config.matches, config.ddp.sync_freq
    ddpg = replace(
        config.ddpg,
        batch_size=config.ddpg.batch_size or auto["batch_size"],
        turns=config.ddpg.turns or auto["turns"],
        uniform_kl=auto["uniform_kl"] if config.ddpg.uniform_kl is None else config.ddpg.uniform_kl,
        updates=config.ddpg.updates or _multiple(auto["updates"], freq),
    )
    if ddpg.updates % freq:
        raise UserError(f"ddpg.updates is {ddpg.updates}; allowed with ddp.sync_freq {freq}: a multiple of {freq}")
    row = batch.encoder_named(config.network.encoder).width + 6  # bytes of a transition
    size = ddpg.buffer_size or min(auto["buffer_size"], int(BUFFER_SHARE * free_memory(device) / row / sharing))
    teams = 2 * matches if config.schedule.self_play else matches  # at the most
    least = (ddpg.n_step + 1) * teams * TEAM
    if ddpg.buffer_size is None:
        size = max(size, least + SMALL_FEWEST_TURNS * teams * TEAM)
    elif size < least:
        raise UserError(
            f"ddpg.buffer_size is {size}; allowed: from {least}, {ddpg.n_step + 1} turns of {matches} matches "
            f"(or fewer matches)"
        )
    return replace(ddpg, buffer_size=size)


def _ppo(config: TrainConfig, auto: dict, world: int) -> PpoConfig:
    ppo, steps = config.ppo, config.matches * world  # of one turn
    if ppo.target_kl and config.precision == "fp16":
        raise UserError("ppo.target_kl leaves out steps, which fp16 with its scaled losses cannot; use bf16 or fp32")
    if ppo.update_interval is not None and ppo.update_interval < steps:
        raise UserError(
            f"ppo.update_interval is {ppo.update_interval}; allowed: from {steps}, one turn of all matches of "
            f"{count(world, 'rank')} (or fewer matches)"
        )
    return replace(
        ppo,
        update_interval=ppo.update_interval or PPO_TURNS * steps,
        batch_size=ppo.batch_size or auto["batch_size"],
        lr=auto["lr"] if ppo.lr is None else ppo.lr,
        uniform_kl=auto["uniform_kl"] if ppo.uniform_kl is None else ppo.uniform_kl,
    )


def free_memory(device: torch.device) -> int:
    """Bytes that can still be had on the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return batch.free_memory()


def _cpu_has_bf16() -> bool:
    # Without such instructions torch goes through fp32 and back, many times slower.
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _multiple(number: int, of: int) -> int:
    return -(-number // of) * of

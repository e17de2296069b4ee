"""Chooses what a configuration leaves to `auto`, for the device that the run is on."""

from dataclasses import replace

import torch

from arena import batch
from arena.rules import TEAM
from marl.config import TrainConfig
from marl.errors import UserError

# What learns best per second: measured on two Neoverse-N1 cores and on one H200.
CPU = {"encoder": "features", "body": (128, 128), "matches": 256, "batch_size": 1024, "buffer_size": 1_000_000}
GPU = {"encoder": "planes", "body": (512, 256), "matches": 4096, "batch_size": 8192, "buffer_size": 2_000_000}
CPU_CYCLE, GPU_CYCLE = {"turns": 4, "updates": 3}, {"turns": 4, "updates": 10}
# What --max_utilization asks for instead: as wide as memory and cores allow.
CPU_LARGEST = {"body": (256, 256), "matches": 1024, "batch_size": 4096, "buffer_size": 8_000_000}
GPU_LARGEST = {"body": (1024, 512), "matches": 16384, "batch_size": 32768, "buffer_size": 30_000_000}
BUFFER_SHARE = 0.5  # of the free memory that a buffer chosen here may take
SMALL_FEWEST_TURNS = 16  # turns that a buffer holds at the least, beyond those of a target


def resolve(config: TrainConfig, device: torch.device, sharing: int = 1) -> TrainConfig:
    """The configuration with every `auto` replaced by a value. `sharing`: ranks that share the device's memory."""
    on_gpu = device.type == "cuda"
    auto = (GPU | GPU_CYCLE) if on_gpu else (CPU | CPU_CYCLE)
    if config.max_utilization:
        auto |= GPU_LARGEST if on_gpu else CPU_LARGEST
    network = replace(
        config.network,
        encoder=config.network.encoder or auto["encoder"],
        body=config.network.body or auto["body"],
    )
    matches = config.matches or auto["matches"]
    ddpg = replace(
        config.ddpg,
        batch_size=config.ddpg.batch_size or auto["batch_size"],
        turns=config.ddpg.turns or auto["turns"],
        updates=config.ddpg.updates or _multiple(auto["updates"], config.ddp.sync_freq),
    )
    if ddpg.updates % config.ddp.sync_freq:
        freq = config.ddp.sync_freq
        raise UserError(f"ddpg.updates is {ddpg.updates}; allowed with ddp.sync_freq {freq}: a multiple of {freq}")
    row = batch.encoder_named(network.encoder).width + 6  # bytes of a transition
    size = config.ddpg.buffer_size or min(auto["buffer_size"], int(BUFFER_SHARE * free_memory(device) / row / sharing))
    least = (ddpg.n_step + 1) * matches * TEAM
    if config.ddpg.buffer_size is None:
        size = max(size, least + SMALL_FEWEST_TURNS * matches * TEAM)
    elif size < least:
        raise UserError(
            f"ddpg.buffer_size is {size}; allowed: from {least}, {ddpg.n_step + 1} turns of {matches} matches "
            f"(or fewer matches)"
        )
    precision = config.precision or ("bf16" if on_gpu and torch.cuda.is_bf16_supported() else "fp32")
    if not on_gpu and (precision == "fp16" or (precision == "bf16" and not _cpu_has_bf16())):
        raise UserError(f"precision is {precision}; this CPU calculates in fp32")
    return replace(config, matches=matches, precision=precision, network=network, ddpg=replace(ddpg, buffer_size=size))


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

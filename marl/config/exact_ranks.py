"""What --exact_ranks needs: a number of ranks, a device and sizes that can be cut into equal shards."""

from collections.abc import Mapping

import torch

from marl.config.train_config import TrainConfig
from marl.errors import UserError
from marl.wording import count


def check_exact_ranks(config: TrainConfig, device: torch.device, world: int) -> None:
    """Raise a UserError unless this many ranks can share the shards, in an arithmetic that is the same on all."""
    shards = config.ddp.exact_ranks
    if shards % world:
        allowed = ", ".join(str(2**i) for i in range(shards.bit_length()))
        raise UserError(
            f"{count(world, 'rank')} cannot share the {shards} shards of ddp.exact_ranks; allowed: {allowed} ranks"
        )
    if device.type != "cpu":
        raise UserError(f"ddp.exact_ranks is {shards}; it needs a CPU, this is {device.type} (add --device cpu)")
    if config.precision not in (None, "fp32"):
        raise UserError(f"precision is {config.precision}; allowed with ddp.exact_ranks: fp32")
    if config.ddp.scaling != "strong":
        raise UserError("ddp.scaling is weak; allowed with ddp.exact_ranks: strong, for the same sizes on any ranks")


def check_shard_sizes(config: TrainConfig, paths: Mapping[str, str], world: int) -> None:
    """Raise a UserError unless the matches and the batch of a rank are equal whole parts for its shards.

    paths: plain name -> path of the sizes per rank.
    """
    shards = config.ddp.exact_ranks // world
    section = getattr(config, config.learner_section)
    for name, size, unit in (("matches", config.matches, 2), ("batch_size", section.batch_size, 1)):
        if size < unit * shards or size % (unit * shards):
            raise UserError(
                f"{paths[name]} is {size} per rank; allowed with ddp.exact_ranks {config.ddp.exact_ranks} on "
                f"{count(world, 'rank')}: a multiple of {unit * shards}"
            )

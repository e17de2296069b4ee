"""Options of training in several ranks."""

from dataclasses import dataclass, field
from typing import Literal

from marl.config.values import at_least, check_ranges


@dataclass(frozen=True)
class DistributedConfig:
    """Several ranks that train one team."""

    backend: Literal["nccl", "gloo"] | None = None
    """Backend of torch.distributed (auto: nccl with GPUs on Linux, else gloo; CPU ranks on one machine then sum their
    gradients through shared memory, several times faster)."""
    scaling: Literal["strong", "weak"] = "strong"
    """Meaning of automatic sizes (matches, batch_size, buffer_size) with several ranks. strong: for the whole run,
    split over the ranks; every number of ranks trains the same team. weak: per rank; the batch grows with the ranks and
    the updates per episode fall, which pays only with a higher learning rate (lr_scaling) and more episodes."""
    timeout: float = 300.0
    """Seconds without an answer from a rank after which the run ends."""
    sync_freq: int = 1
    """Gradient accumulation: minibatches per optimizer step and exchange of gradients between ranks."""
    lr_scaling: Literal["none", "linear", "sqrt"] = "none"
    """Growth of the learning rates with the number of ranks."""
    lr_warmup: int = 0
    """Updates over which the learning rates rise linearly to their full value."""
    check_sync: int = field(default=0, metadata={"bare": 100})
    """Updates between two comparisons of all parameters over the ranks; 0: never."""

    def __post_init__(self) -> None:
        check_ranges(
            "ddp",
            self,
            timeout=at_least(1),
            sync_freq=at_least(1),
            lr_warmup=at_least(0),
            check_sync=at_least(0),
        )

"""Options of the networks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from marl.config.values import Choices, between, check_ranges
from marl.errors import UserError
from marl.registry import NETWORKS

MODEL_SIZES = {"tiny": (64, 64), "small": (128, 128), "medium": (256, 128), "large": (512, 256), "huge": (1024, 512)}
WIDTH_MAX = 65_536  # two such layers have 16 GiB of weights; beyond it a width is a mistake

# For the help text.
ABOUT_SIZES = tuple((name, ",".join(map(str, sizes))) for name, sizes in MODEL_SIZES.items())
ABOUT_ENCODERS = (
    ("features", "a vector of 80 numbers about the snake's surroundings"),
    ("canonical", "the same, rotated and mirrored: the snake looks up"),
    ("planes", "the whole board, centred on the snake's head"),
    ("egocentric", "13 x 13 cells around the head, and canonical"),
    ("tactical", "canonical, and what searches find behind each action"),
    ("tactical_board", "egocentric, and the same numbers of each action"),
)
ABOUT_NETWORKS = (
    ("mlp", "a dense layer"),
    ("cnn", "convolutions that wrap around the edges of the board (only with encoder planes)"),
)


def _encoders() -> Mapping[str, Any]:
    from arena.encoders import ENCODERS

    return ENCODERS


@dataclass(frozen=True)
class NetworkConfig:
    """The networks of the team; its three snakes share them."""

    encoder: Annotated[str, Choices(_encoders), ABOUT_ENCODERS] | None = None
    """What a snake observes (auto: tactical on a CPU, tactical_board on a GPU)."""
    kind: Annotated[str, Choices(NETWORKS), ABOUT_NETWORKS] = "mlp"
    """First layer of the network."""
    channels: tuple[int, ...] = (32, 32)
    """Output channels of the convolutions (only with kind cnn)."""
    model_size: Annotated[str, Choices(MODEL_SIZES), ABOUT_SIZES] | None = None
    """Hidden layer sizes by name (auto: those of body)."""
    body: tuple[int, ...] | None = None
    """Hidden layer sizes (auto: 128,128 on a CPU, 512,256 on a GPU)."""
    messages: bool = False
    """Communication: after the first layer, the actor of each snake also receives the features of its two mates."""
    lstm_size: int = 128
    """Hidden size of the LSTM after the body (only with algo ppo_lstm)."""

    def __post_init__(self) -> None:
        for name in ("body", "channels"):
            widths = getattr(self, name)
            if widths is not None and not (widths and 1 <= min(widths) <= max(widths) <= WIDTH_MAX):
                given = ",".join(map(str, widths))
                raise UserError(f"network.{name} is {given}; allowed: widths from 1 to {WIDTH_MAX}, like 128,128")
        if self.body is not None and self.model_size is not None and self.body != MODEL_SIZES[self.model_size]:
            raise UserError("network.body and network.model_size both say how wide the network is; give one of them")
        if self.kind == "cnn" and self.encoder not in (None, "planes"):
            raise UserError("network.kind is cnn, which reads a board; allowed with it: network.encoder planes")
        check_ranges("network", self, lstm_size=between(1, WIDTH_MAX))

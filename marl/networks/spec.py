"""The specification of an actor: all that must be known to build it again."""

from dataclasses import dataclass, fields
from typing import Any

from arena.rules import ACTIONS
from marl.config.sections import NetworkConfig

FORMER_NAMES = {"memory": "lstm_size"}  # in snapshots and checkpoints written before the renaming


@dataclass(frozen=True)
class NetworkSpec:
    """Sizes of an actor's parts."""

    body: tuple[int, ...]  # widths of the dense layers
    outputs: int = ACTIONS  # logits, and maybe a value
    channels: tuple[int, ...] = ()  # of the stem, for kinds other than mlp: of its convolutions
    messages: bool = False  # mates exchange messages behind the first layer
    lstm_size: int = 0  # of the LSTM behind the body; 0 for none
    kind: str = ""  # of the stem, a key of marl.registry.NETWORKS; "" in old files: cnn if there are channels, else mlp

    @property
    def stem(self) -> str:
        """The kind of stem."""
        return self.kind or ("cnn" if self.channels else "mlp")


def spec_from_config(network: NetworkConfig, outputs: int, recurrent: bool = False) -> NetworkSpec:
    """The actor that a configuration asks for."""
    channels = () if network.kind == "mlp" else network.channels
    lstm_size = network.lstm_size if recurrent else 0
    return NetworkSpec(network.body, outputs, channels, network.messages, lstm_size, network.kind)


def spec_from_dict(values: dict[str, Any]) -> NetworkSpec:
    """The specification among the values of a snapshot's or checkpoint's description."""
    values = {FORMER_NAMES.get(name, name): value for name, value in values.items()}
    known = {field.name: values[field.name] for field in fields(NetworkSpec) if field.name in values}
    known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
    return NetworkSpec(**known)

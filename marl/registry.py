"""Tables of what a configuration can choose by name, each entry with the place of its class: "module:class".

A new learner or network is a class and a line here (docs/extend.md). Entries are imported when they are used, so that
reading a configuration stays fast; an entry may also be the class itself. Encoders are in arena.encoders.ENCODERS,
reward presets in marl.rewards.PRESETS, opponents in opponents.scripted.SCRIPTED.
"""

import importlib
from collections.abc import Mapping
from typing import Any

# --algo -> learner. A name x_y reads the section x of the configuration if there is none of its own.
LEARNERS: dict[str, Any] = {
    "ddpg": "marl.learners.ddpg:Ddpg",
    "ppo": "marl.learners.ppo:Ppo",
    "ppo_lstm": "marl.learners.ppo_lstm:PpoLstm",
}
# --kind -> stem of the networks.
NETWORKS: dict[str, Any] = {
    "mlp": "marl.networks.stems:DenseStem",
    "cnn": "marl.networks.stems:TorusConvStem",
}


def load(table: Mapping[str, Any], name: str) -> Any:
    """The class that a table names."""
    entry = table[name]
    if not isinstance(entry, str):
        return entry
    module, _, attribute = entry.partition(":")
    return getattr(importlib.import_module(module), attribute)

"""Tables of what a configuration can choose by name, each entry with the place of its class: "module:class".

A new learner or network is a class and a line here (docs/extend.md). Entries are imported when they are used, so that
reading a configuration stays fast; an entry may also be the class itself. Encoders are in arena.encoders.ENCODERS,
reward presets in marl.rewards.PRESETS, opponents in opponents.scripted.SCRIPTED. marl/plugins.py imports files of users
that add lines.
"""

import importlib
from collections.abc import Mapping
from typing import Any

# --algo -> learner. Defaults that only this name has are in configs/NAME.yaml.
LEARNERS: dict[str, Any] = {
    "ddpg": "marl.learners.ddpg:Ddpg",
    "maddpg": "marl.learners.ddpg:Ddpg",
    "matd3": "marl.learners.ddpg:Ddpg",
    "ppo": "marl.learners.ppo:Ppo",
    "ppo_lstm": "marl.learners.ppo_lstm:PpoLstm",
    "mappo": "marl.learners.ppo:Ppo",
    "vdn": "marl.learners.q_learning:QLearning",
    "qmix": "marl.learners.q_learning:QLearning",
}
# Learner -> section of the configuration that it reads. A name that is not here reads the section with its own name; a
# name x_y without one reads the section x.
SECTIONS: dict[str, str] = {
    "maddpg": "ddpg", "matd3": "ddpg", "mappo": "ppo", "vdn": "qlearning", "qmix": "qlearning",
}  # fmt: skip
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

"""Learners and networks by the names that a configuration uses. A new one is one line here.

A value is the object itself, or "module:name" for an object that is imported only when it is needed, so that reading a
configuration loads neither torch nor the learners.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

# algo -> class of the learner. Its options are in the section of the same name. ppo_lstm has no such section and uses
# that of its name less the last word, ppo.
LEARNERS: Mapping[str, Any] = {
    "ddpg": "marl.learners.ddpg:Ddpg",
    "ppo": "marl.learners.ppo:Ppo",
    "ppo_lstm": "marl.learners.ppo:Ppo",
}
# network.kind -> class of the first layer.
NETWORKS: Mapping[str, Any] = {
    "mlp": "marl.networks.networks:FirstLayer",
    "cnn": "marl.networks.networks:TorusReader",
}


def load(table: Mapping[str, Any], name: str) -> Any:
    """The object with this name, imported if the table holds only its address."""
    entry = table[name]
    if not isinstance(entry, str):
        return entry
    module, _, attribute = entry.partition(":")
    return getattr(import_module(module), attribute)

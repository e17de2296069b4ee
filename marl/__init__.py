"""Who learns: the command line, the tools around the arena, and the learners. Imports arena and opponents.

From Python: `from marl import train, load, play, team_env` (marl/api.py).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marl.api import TrainResult, load, play, team_env, train

__version__ = "0.1.0"
__all__ = ["TrainResult", "__version__", "load", "play", "team_env", "train"]


def __getattr__(name: str) -> Any:
    """The functions of marl.api, which bring torch: who does not ask for them need not wait."""
    if name not in __all__:
        raise AttributeError(f"module 'marl' has no attribute {name!r}")
    from marl import api

    return getattr(api, name)

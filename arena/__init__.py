"""The 3v3 Snake arena: one rulebook, from one PettingZoo match to a hundred thousand matches on a GPU."""

from typing import TYPE_CHECKING, Any

from arena.errors import ArenaError
from arena.jidi import jidi_observation
from arena.rules import RULES_VERSION

if TYPE_CHECKING:
    from arena.backends.tensors import Events
    from arena.batch import BatchArena
    from arena.environment import AECEnv, ParallelEnv

__all__ = ["RULES_VERSION", "ArenaError", "BatchArena", "Events", "env", "jidi_observation", "parallel_env"]


def __getattr__(name: str) -> Any:
    """BatchArena and Events bring torch, which takes seconds to load; who does not ask for them need not wait."""
    if name not in ("BatchArena", "Events"):
        raise AttributeError(f"module 'arena' has no attribute {name!r}")
    from arena import batch

    return getattr(batch, name)


def parallel_env(render_mode: str | None = None, seed: int | None = None, **options: Any) -> "ParallelEnv":
    """One match as a PettingZoo ParallelEnv; options: observation ("features" or "planes"), max_cycles."""
    from arena import environment  # PettingZoo is imported only by those who ask for it

    return environment.parallel_env(render_mode, seed, **options)


def env(render_mode: str | None = None, seed: int | None = None, **options: Any) -> "AECEnv":
    """One match as a PettingZoo AECEnv, same options."""
    from arena import environment

    return environment.env(render_mode, seed, **options)

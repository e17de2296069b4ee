"""The 3v3 Snake arena: one rulebook, from one PettingZoo match to a hundred thousand matches on a GPU."""

from typing import Any

from arena.batch import BatchArena, Events
from arena.errors import ArenaError
from arena.rules import RULES_VERSION

__all__ = ["RULES_VERSION", "ArenaError", "BatchArena", "Events"]

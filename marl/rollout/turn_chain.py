"""Whole turns of a rollout in one compiled call, from observation to buffer row (arena/backends/chain.py).

The loops are those of Rollout.play_turn, in the same order on the same arrays: the results are equal to the bit. With
32 matches and the default encoder a turn takes 0.69 ms on one Neoverse-N1 core, with calls from Python 1.0 ms. Two
threads play half of the matches each, and wait for each other once in several turns.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from arena.backends.chain import as_bound, chain
from arena.backends.parallel import address_of
from arena.rules import TEAM
from opponents import loops

Call = Callable[[], None]


class TurnPart(NamedTuple):
    """Consecutive matches of a rollout, of which one thread plays several turns."""

    matches: slice
    teams: slice  # that learn in them
    counts: torch.Tensor  # TurnBuffer.counts as far as this thread is: a copy

    @property
    def seats(self) -> slice:
        """Of these teams."""
        return slice(TEAM * self.teams.start, TEAM * self.teams.stop)


class TurnChain:
    """Calls that make a turn: some before the scripted opponents decide, and some after them."""

    def __init__(self, before: Sequence[Call], scripted: Sequence[Call], after: Sequence[Call]) -> None:
        """scripted: opponents as opponents.loops.bind gives them, by opponent id."""
        self._scripted = [as_bound(act) for act in scripted]
        self._known = [0] * len(scripted)  # addresses; an opponent is compiled when it is met for the first time
        self._addresses = np.zeros(len(scripted), np.int64)
        self._chain = chain((*before, *self._decide(), *after))

    def _decide(self) -> tuple[partial, ...]:
        if not self._scripted:
            return ()
        state, keys, seats, which, _, noise, moves = self._scripted[0].args
        return (partial(loops.decide_mix, self._addresses, state, keys, seats, which, noise, moves),)

    def play(self, turns: int, met: Sequence[bool]) -> None:
        """Play turns. met: whether any match may be against an opponent, by opponent id."""
        for i, act in enumerate(self._scripted):
            if met[i] and not self._known[i]:
                self._known[i] = address_of(act.func, act.args)
            self._addresses[i] = self._known[i] if met[i] else 0
        self._chain(turns)

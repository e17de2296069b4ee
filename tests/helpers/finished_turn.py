"""A turn just played in a few matches, as finish_turns gets it, and what it writes; numpy arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arena.backends.tensors import Events
from arena.rules import LENGTH, MATCH_BYTES, SNAKES, TEAM
from marl.config.sections import RewardConfig
from marl.rollout.turn_kernels import MatchSums, Teams, TurnRows, finish_turns

# One turn: red ends it with 5 + 4 + 3 segments, blue with 3 + 3 + 4. Snakes 0 and 3 ate; snakes 1 and 5 died.
LENGTHS = (5, 4, 3, 3, 3, 4)
GAINS = (1, -2, 0, 1, 0, -3)
ATE = (1, 0, 0, 1, 0, 0)
DIED = (0, 1, 0, 0, 0, 1)
PLAIN = dict.fromkeys(("own", "mates", "foes"), 0.0)  # no weights but those that are given


class FinishedTurn:
    """B matches; in those of `both`, the other side learns as well."""

    def __init__(
        self,
        matches: int,
        turns: int = 4,
        opponents: int = 3,
        weights: dict[str, Any] | None = None,
        both: Sequence[int] = (),
    ) -> None:
        self.state = np.zeros((matches, MATCH_BYTES), np.uint8)
        self.board_actions = np.zeros((matches, SNAKES), np.int8)
        ate, died = np.zeros((2, matches, SNAKES), bool)
        self.events = Events(ate, died, np.zeros((matches, SNAKES), np.int16), np.zeros(matches, bool))
        match = np.array([*range(matches), *both], np.int32)
        count = len(match)
        is_second = np.arange(count) >= matches
        self.teams = Teams(match, np.zeros(count, np.uint8), np.zeros(count * TEAM, np.int8), is_second)
        self.opponent_id = np.zeros(matches, np.uint8)
        self.weights = np.array(RewardConfig(**(PLAIN | (weights or {}))).weights(), np.float32)
        self.rows = TurnRows(
            np.zeros(2, np.int64),
            np.full((turns, count, TEAM), -1, np.int8),
            np.full((turns, count, TEAM), np.nan, np.float32),
            np.zeros((turns, count), bool),
        )
        tally = np.zeros((matches, opponents, 3), np.int64)
        deaths, lengths = np.zeros((2, matches, 2), np.int64)
        self.results = MatchSums(np.zeros((matches, 2, TEAM), np.float32), tally, deaths, lengths)

    def finish(self) -> None:
        turn = (self.state, self.events, self.board_actions, self.opponent_id)
        given = (*turn, self.teams, self.weights, self.rows, self.results)
        finish_turns.cpu_loop()(0, len(self.teams.match), given)

    def play_table(self, swap: bool = False) -> None:
        """All matches play the turn above; `swap` exchanges the teams' colours."""
        order = [3, 4, 5, 0, 1, 2] if swap else range(SNAKES)
        self.state[:, LENGTH : LENGTH + SNAKES] = np.array(LENGTHS)[order]
        self.events.reward[:] = np.array(GAINS)[order]
        self.events.ate[:], self.events.died[:] = np.array(ATE)[order], np.array(DIED)[order]

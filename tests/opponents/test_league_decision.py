"""The sequential test: its error rates by simulation, and that it is decided when it should be."""

import numpy as np
import pytest

from opponents.league_decision import AWAY, BETS, ERROR, GAINS, HOME, evidence, verdict

SEED = 20261118
PAIRS, BOARDS = 4_000, 400
# Shares of boards that give home 0, 0.5, 1, 1.5 and 2 points. All of them take half of the points.
EQUAL = {
    "few draws": (0.24, 0.02, 0.48, 0.02, 0.24),
    "colour decides": (0.03, 0.0, 0.94, 0.0, 0.03),
    "many draws": (0.01, 0.25, 0.48, 0.25, 0.01),
    "board decides": (0.5, 0.0, 0.0, 0.0, 0.5),
    "lopsided": (1 / 3, 0.0, 0.0, 2 / 3, 0.0),
    "one rare loss": (0.04, 0.0, 0.88, 0.08, 0.0),
}


def simulate(shares: tuple[float, ...], boards: int = BOARDS) -> tuple[np.ndarray, np.ndarray]:
    """Whether home, and whether away, is ever called better, in PAIRS pairs that are looked at after every board."""
    print(f"seed {SEED}")
    drawn = np.random.default_rng(SEED).choice(5, (PAIRS, boards), p=shares)
    called = []
    for sign in (1, -1):
        steps = np.log1p(sign * BETS[:, None] * GAINS)  # [bets, 5]
        sums, ever = np.zeros((PAIRS, len(BETS))), np.zeros(PAIRS, bool)
        for board in drawn.T:
            sums += steps.T[board]
            ever |= np.exp(sums).mean(1) >= 1 / ERROR
        called.append(ever)
    return called[0], called[1]


@pytest.mark.parametrize("shares", EQUAL.values(), ids=EQUAL)
def test_teams_that_are_equal_are_told_apart_in_at_most_the_promised_share(shares):
    assert np.dot(shares, np.arange(5) / 4) == pytest.approx(0.5)
    home, away = simulate(shares)
    # Four standard errors of the simulation: a test of 4,000 pairs cannot tell 2.5 % from 3 %.
    most = ERROR + 4 * np.sqrt(ERROR * (1 - ERROR) / PAIRS)
    assert home.mean() <= most
    assert away.mean() <= most


def test_the_weaker_team_is_hardly_ever_called_better_and_the_stronger_one_is_found():
    home, away = simulate((0.15, 0.02, 0.40, 0.03, 0.40))  # 62.75 % of the points
    assert away.mean() < ERROR
    assert home.mean() > 0.99


def test_the_simulated_test_is_the_one_that_is_used():
    print(f"seed {SEED}")
    drawn = np.random.default_rng(SEED).choice(5, 60, p=(0.1, 0.1, 0.3, 0.2, 0.3))
    boards = np.bincount(drawn, minlength=5)
    sums = np.log1p(BETS[:, None] * GAINS)[:, drawn].sum(1)
    assert evidence(boards) == pytest.approx(np.log(np.exp(sums).mean()))
    assert evidence(np.stack([boards, boards[::-1]])) == pytest.approx([evidence(boards), evidence(boards[::-1])])


def test_few_boards_decide_nothing_and_a_row_of_wins_does():
    def wins(number):
        return np.array([0, 0, 0, 0, number])

    assert verdict(np.zeros(5, np.int64)) is None
    decided = [number for number in range(1, 20) if verdict(wins(number))]
    assert decided == list(range(8, 20))  # 16 matches
    assert verdict(wins(8)) == HOME
    assert verdict(wins(8)[::-1]) == AWAY
    assert verdict(np.array([0, 0, 10_000, 0, 0])) is None
    assert verdict(np.array([0, 0, 0, 0, 1_000_000])) == HOME  # no overflow

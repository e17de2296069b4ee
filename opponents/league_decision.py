"""When it is decided which of two teams is better: a sequential test that may be looked at after every board.

A board is played twice, with the colours swapped, so that neither its beans nor a colour favours a team; home takes
0 to 2 points of it in halves. For each team there is a mixture sequential probability ratio test (Robbins) of "takes
at most half of the points": with x = points / 2 - 1/2, the product of 1 + bet * x over all boards is a likelihood ratio
whose mean is at most 1 for such a team, whatever the shares of wins, draws and losses. The mean over some bets is one,
too. By Ville's inequality it ever reaches 1 / ERROR with a chance of at most ERROR: a team is called better although it
is not in at most that share of the cases, however often and whenever one looks, and without any approximation.

Equal teams stay undecided in at least 95 of 100 cases, and play all their matches.
"""

import numpy as np

ERROR = 0.025  # of each of the two verdicts
BETS = np.array([0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3, 1.6, 1.9])  # below 2: a lost board must not be worth less than 0
GAINS = np.arange(5) / 4 - 0.5  # x of a board with 0, 0.5, 1, 1.5 or 2 points
HOME, AWAY = "home", "away"
ERROR_RATES = {"home_is_better": ERROR, "away_is_better": ERROR}


def verdict(boards: np.ndarray) -> str | None:
    """Who is better, HOME or AWAY; None: still open. boards [5]: how many gave home 0, 0.5, .. 2 points."""
    needed = -np.log(ERROR)
    return HOME if evidence(boards) >= needed else AWAY if evidence(boards[::-1]) >= needed else None


def evidence(boards: np.ndarray) -> np.ndarray:
    """The log of the likelihood ratio for "home takes more than half of the points"; boards [.., 5] -> [..]."""
    logs = boards @ np.log1p(BETS[:, None] * GAINS).T
    most = logs.max(-1)  # so that no exponential overflows
    return most + np.log(np.exp(logs - most[..., None]).mean(-1))

"""How long a league will take: submissions, policies and players that plan play a little first, and are timed.

The time of a pair is taken to be the sum of its players' times, since one is asked after the other. Scripted players,
and policies on a GPU, take less than a millisecond a match and count as nothing.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from opponents.match import play_some
from opponents.players import Player, Scripted
from opponents.submission import Submission

MEASURED_SECONDS = 5.0  # of one player; then its match is broken off, and the rest of it is reckoned
MEASURED_MATCHES = 64  # at once, as a batch takes less time for each
OPPONENT = "level0"


class _Enough(Exception):
    """The player has played long enough."""


def is_slow(player: Player) -> bool:
    """Whether a player decides turn by turn on the host, like submissions and players that plan."""
    return not hasattr(player, "bind_turn")


def seconds_per_match(player: Player, device: str, clock: Callable[[], float] = time.perf_counter) -> float:
    """The time that a player takes for one of many matches: with all that is loaded anew, without compiling."""
    if isinstance(player, Scripted) or (device.startswith("cuda") and not is_slow(player)):
        return 0.0
    size = player.workers if isinstance(player, Submission) else MEASURED_MATCHES
    marks: list[tuple[float, float]] = []  # done share, time
    # A twin, since what happens here is no match of the league: its errors do not count.
    twin = player.twin() if isinstance(player, Submission) else None
    begun = clock()

    def look(share: float) -> None:
        marks.append((share, clock()))
        if len(marks) > 1 and marks[-1][1] - begun > MEASURED_SECONDS:
            raise _Enough

    try:
        with suppress(_Enough):
            play_some(twin or player, OPPONENT, size, range(size), device, batch=size, progress=look)
    finally:
        if twin:
            twin.close()
    if twin and twin.errors >= twin.move_times.moves:
        return 0.0  # no move has come: it forfeits its matches soon, or is given up, and takes no time then
    (first, first_time), (last, last_time) = marks[0], marks[-1]
    turns = (last_time - first_time) / (last - first)  # all of them
    # The first turn of a submission loads it, which it does in every match; that of another player may compile.
    return (first_time - begun + turns * (1 - first) if twin else turns) / size


def league_seconds(seconds: Sequence[float], matches: float) -> float:
    """The time of a league in which each pair plays so many matches; seconds: per match, of each player."""
    return matches * (len(seconds) - 1) * sum(seconds)

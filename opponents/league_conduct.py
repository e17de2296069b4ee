"""How a team behaved in its matches: errors, forfeits and the time of its moves."""

from dataclasses import dataclass

from opponents.players import Player
from opponents.submission import Submission


@dataclass(frozen=True)
class Conduct:
    """Of all matches of one team. Only submissions make errors and have times: other players decide in batches."""

    errors: int = 0  # moves that did not come, and failures to load
    forfeits: int = 0  # matches
    mean_ms: float | None = None  # of a move: CPU time if the kernel tells it
    longest_ms: float | None = None


def conduct_of(player: Player, forfeits: int) -> Conduct:
    """The conduct of a player since it was opened."""
    if not isinstance(player, Submission):
        return Conduct(forfeits=forfeits)
    times = player.move_times
    if not times.moves:
        return Conduct(player.errors, forfeits)
    return Conduct(player.errors, forfeits, 1000 * times.mean, 1000 * times.longest)

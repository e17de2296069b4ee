"""Who sits where: in which matches of a rank the team meets itself, a past self, or an opponent of the schedule.

It stays the same for a whole run, so that every network is always asked about the same number of snakes, which a CUDA
graph needs. Matches are dealt in pairs, one as red and one as blue, evenly over the slots: twice the matches are the
same deal twice, so that two ranks play what one with twice the matches plays, if the shares come out even.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class LineUp:
    """Slots of a rank's matches; those that are named nowhere meet the opponents of the schedule."""

    matches: int
    both: tuple[int, ...] = ()  # the team meets itself, and learns on both sides
    alone: tuple[int, ...] = ()  # the team meets itself, and learns on one side
    past: tuple[tuple[int, ...], ...] = ()  # for each place of a past self, where it plays

    @property
    def teams(self) -> int:
        """Teams that learn."""
        return self.matches + len(self.both)


def deal(matches: int, both: float = 0.0, alone: float = 0.0, past: float = 0.0, places: int = 1) -> LineUp:
    """A line-up with about these shares of the matches, that of past selves over so many places."""
    pairs = left = matches // 2
    counts = []
    for share in (both, alone, past):
        counts.append(min(round(share * pairs), left))
        left -= counts[-1]
    of_past = counts.pop()
    counts += [of_past // places + (place < of_past % places) for place in range(places)]
    counts.append(left)
    order = sorted(((k + 0.5) / n, role) for role, n in enumerate(counts) for k in range(n))
    slots: list[list[int]] = [[] for _ in counts]
    for pair, (_, role) in enumerate(order):
        slots[role] += [2 * pair, 2 * pair + 1]
    taken = [tuple(role) for role in slots[:-1]]
    return LineUp(matches, taken[0], taken[1], tuple(place for place in taken[2:] if place))

"""Which matches of a rank are self-play, which are played against past selves, and which against the schedule.

The assignment stays the same for a whole run, so that every network always plays the same number of snakes, which a
CUDA graph needs. Matches are assigned in pairs, one as red and one as blue, evenly over the slots: twice the matches
give the same assignment twice, so that two ranks play what one with twice the matches plays, if the shares divide.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MatchAssignment:
    """Match slots of a rank by opponent; slots that are named nowhere meet the opponents of the schedule."""

    matches: int
    self_play_both: tuple[int, ...] = ()  # the team meets itself, and both sides are learned from
    self_play_one: tuple[int, ...] = ()  # the team meets itself, and one side is learned from
    past_selves: tuple[tuple[int, ...], ...] = ()  # slots of each past self that plays
    shards: int = 1  # equal parts, one after the other, each assigned alike

    @property
    def teams(self) -> int:
        """Teams that learn."""
        return self.matches + len(self.self_play_both)

    def repeat(self, shards: int) -> "MatchAssignment":
        """The same assignment for each of this many shards, one after the other."""

        def again(slots: Sequence[int]) -> tuple[int, ...]:
            return tuple(shard * self.matches + slot for shard in range(shards) for slot in slots)

        both, one, past = again(self.self_play_both), again(self.self_play_one), map(again, self.past_selves)
        return MatchAssignment(shards * self.matches, both, one, tuple(past), shards)


def assign_matches(
    matches: int, self_play_both: float = 0.0, self_play_one: float = 0.0, past_selves: float = 0.0, seats: int = 1
) -> MatchAssignment:
    """An assignment with about these shares of the matches; that of past selves is split over `seats` of them."""
    pairs = left = matches // 2
    counts = []
    for share in (self_play_both, self_play_one, past_selves):
        counts.append(min(round(share * pairs), left))
        left -= counts[-1]
    of_past = counts.pop()
    counts += [of_past // seats + (seat < of_past % seats) for seat in range(seats)]
    counts.append(left)
    order = sorted(((k + 0.5) / n, role) for role, n in enumerate(counts) for k in range(n))
    slots: list[list[int]] = [[] for _ in counts]
    for pair, (_, role) in enumerate(order):
        slots[role] += [2 * pair, 2 * pair + 1]
    taken = [tuple(role) for role in slots[:-1]]
    return MatchAssignment(matches, taken[0], taken[1], tuple(past for past in taken[2:] if past))

"""Which matches of a rank are self-play, which meet past selves or named players, and which the schedule; and at which
turn each match slot starts again at the beginning of a run.

The assignment stays the same for a whole run, so that every network always plays the same number of snakes, which a
CUDA graph needs. Matches are assigned in pairs, one as red and one as blue, evenly over the slots: twice the matches
give the same assignment twice, so that two ranks play what one with twice the matches plays, if the shares divide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch

from arena.rules import TURNS

TOGETHER = {"cpu": 1, "cuda": 32}  # consecutive slots at about the same turn: threads of a GPU run in step
GOLDEN = (math.sqrt(5) - 1) / 2  # multiples of it, modulo 1, are spread evenly however many there are


@dataclass(frozen=True)
class MatchAssignment:
    """Match slots of a rank by opponent; slots that are named nowhere meet the opponents of the schedule."""

    matches: int
    self_play_both: tuple[int, ...] = ()  # the team meets itself, and both sides are learned from
    self_play_one: tuple[int, ...] = ()  # the team meets itself, and one side is learned from
    past_selves: tuple[tuple[int, ...], ...] = ()  # slots of each past self that plays
    named: tuple[tuple[int, ...], ...] = ()  # slots of each player of the option `opponents`

    @property
    def teams(self) -> int:
        """Teams that learn."""
        return self.matches + len(self.self_play_both)

    @property
    def scheduled(self) -> int:
        """Matches against the opponents of the schedule."""
        taken = (self.self_play_both, self.self_play_one, *self.past_selves, *self.named)
        return self.matches - sum(map(len, taken))


def assign_matches(
    matches: int,
    self_play_both: float = 0.0,
    self_play_one: float = 0.0,
    past_selves: float = 0.0,
    seats: int = 1,
    named: Sequence[float] = (),
) -> MatchAssignment:
    """An assignment with about these shares of the matches; that of past selves is split over `seats` of them.

    The shares of named players are rounded together: if all shares add up to 1, no match is left for the schedule.
    """
    pairs = left = matches // 2
    counts = []
    for share in (self_play_both, self_play_one, past_selves):
        counts.append(min(round(share * pairs), left))
        left -= counts[-1]
    of_past = counts.pop()
    counts += [of_past // seats + (seat < of_past % seats) for seat in range(seats)]
    first_named = len(counts)
    for count in _round_together(named, pairs):
        counts.append(min(count, left))
        left -= counts[-1]
    if named and sum((self_play_both, self_play_one, past_selves, *named)) > 1 - 1 / (4 * pairs):
        counts[-1] += left  # what the rounding of self-play and past selves has left over
        left = 0
    counts.append(left)
    order = sorted(((k + 0.5) / n, role) for role, n in enumerate(counts) for k in range(n))
    slots: list[list[int]] = [[] for _ in counts]
    for pair, (_, role) in enumerate(order):
        slots[role] += [2 * pair, 2 * pair + 1]
    taken = [tuple(role) for role in slots[:-1]]
    past = tuple(slots for slots in taken[2:first_named] if slots)
    return MatchAssignment(matches, taken[0], taken[1], past, tuple(taken[first_named:]))


def _round_together(shares: Sequence[float], pairs: int) -> list[int]:
    """Whole numbers of pairs whose sums from the first share on are as near as possible to those of the shares."""
    ends = [0, *(round(end * pairs) for end in accumulate(shares))]
    return [end - begin for begin, end in pairwise(ends)]


def stagger_turns(first: int, matches: int, all_matches: int, device: torch.device) -> torch.Tensor:
    """The turns [matches] at which slots first, first + 1, ... of `all_matches` start again.

    Over all slots they are spread evenly, and so are those of any consecutive slots, like those of one rank: snakes
    grow in a match, and a turn with long snakes takes longer. If a rank had all of its matches near their end, the
    others would wait for it.
    """
    together = math.gcd(TOGETHER[device.type], all_matches)
    groups = all_matches // together
    step = max(1, round(GOLDEN * groups))
    while math.gcd(step, groups) > 1:  # every group has its own place
        step += 1
    slots = torch.arange(first, first + matches)
    places = slots // together * step % groups * together + slots % together
    return (places * TURNS // all_matches).to(device)

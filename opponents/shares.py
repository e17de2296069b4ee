"""Shares of the matches of a training for named players: the texts PLAYER:SHARE of the option `opponents`."""

from collections.abc import Sequence

from arena.errors import ArenaError

ROUNDING = 1e-9  # of sums of shares


def parse_shares(texts: Sequence[str]) -> dict[str, float]:
    """Player -> share of the matches. The share stands after the last colon: `level3:0.2:0.5` is half of the matches
    against `level3:0.2`."""
    shares: dict[str, float] = {}
    for text in texts:
        name, _, share = text.rpartition(":")
        try:
            number = float(share)
        except ValueError:
            number = None
        if not name or number is None:
            raise ArenaError(f"opponents: {text!r} has no share of the matches; write PLAYER:SHARE, like champion:0.4")
        if not 0 < number <= 1:
            raise ArenaError(f"opponents: the share of {name} is {share}; allowed: above 0, at most 1")
        if name in shares:
            raise ArenaError(f"opponents: {name} is named twice; give it one share")
        shares[name] = number
    return shares


def check_sum(shares: dict[str, float], self_play: float) -> None:
    """ArenaError if the shares and that of self-play are more than all matches."""
    total = sum(shares.values()) + self_play
    if total > 1 + ROUNDING:
        and_self_play = f" with self_play {self_play:g}" if self_play else ""
        raise ArenaError(f"opponents: the shares{and_self_play} add up to {total:g}; allowed: at most 1")

"""How many matches the pairs of a league play, and how long that or an evaluation will take."""

from collections.abc import Sequence
from dataclasses import dataclass

from marl.cli.wording import duration
from opponents.league_estimate import is_slow, league_seconds, seconds_per_match
from opponents.league_rounds import BOARDS_MOST
from opponents.match import choose_device
from opponents.players import Player

MATCHES = 1000
LEAST = 10  # of the default for slow players
DEFAULT_SECONDS = 600.0  # that the default for slow players is to take
WORTH_MEASURING = 20  # matches per pair; fewer take hardly longer than measuring


@dataclass(frozen=True)
class Plan:
    """Matches per pair, at most; with the estimate, if there is one."""

    matches: int
    seconds: float | None = None
    text: str = ""


def plan_matches(
    players: Sequence[Player], matches: int | None, minutes: float | None, device: str, stop_when_decided: bool
) -> Plan:
    """The plan for what the user has asked for. Players are timed unless all are fast or the matches are few."""
    most = matches or (MATCHES if minutes is None else 2 * BOARDS_MOST)
    if matches is not None and minutes is None and matches < WORTH_MEASURING:
        return Plan(most)
    device = choose_device(device, players)
    seconds = [seconds_per_match(player, device) for player in players]
    if not any(seconds):
        return Plan(most)
    pairs = len(players) * (len(players) - 1) // 2
    fit = int((DEFAULT_SECONDS if minutes is None else 60 * minutes) / max(league_seconds(seconds, 1), 1e-9))
    if minutes is not None:
        fit = min(most, max(2, fit))
        return Plan(most, 60 * minutes, f"estimate: {pairs:,} pairs, about {fit:,} matches each in {minutes:g} min")
    if matches is None and any(map(is_slow, players)):
        most = min(MATCHES, max(LEAST, fit - fit % 2))
    total = league_seconds(seconds, most)
    bound = "at most " if stop_when_decided else ""
    return Plan(most, total, f"estimate: {pairs:,} pairs, {bound}{most:,} matches each, {bound}about {duration(total)}")


def estimate_text(home: Player, opponents: Sequence[Player], matches: int, device: str, stop_when_decided: bool) -> str:
    """How long an evaluation will take; empty if no player is slow, like one that plans, or the matches are few."""
    if matches < WORTH_MEASURING or not any(map(is_slow, (home, *opponents))):
        return ""
    own = seconds_per_match(home, device)
    total = sum(league_seconds([own, seconds_per_match(away, device)], matches) for away in opponents)
    bound = "at most " if stop_when_decided else ""
    return f"estimate: {bound}{matches * len(opponents):,} matches, {bound}about {duration(total)}"

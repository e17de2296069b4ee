"""Words that stand for several players: all probes, or a half of the field."""

from collections.abc import Sequence


def expand_groups(names: Sequence[str]) -> list[str]:
    """The names, with the players of a group in place of its word."""
    from opponents.field import DEVELOPMENT, HELD_OUT, field
    from opponents.players import GROUPS, probe_listing

    probes = [name for name, _ in probe_listing()]
    groups = dict(zip(GROUPS, (probes, probes, field(DEVELOPMENT), field(HELD_OUT)), strict=True))
    return [each for name in names for each in groups.get(name, [name])]

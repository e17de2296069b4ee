"""Words that stand for several players: the probes, or a half of the field."""

from collections.abc import Sequence


def expand_groups(names: Sequence[str]) -> list[str]:
    """The names, with the players of a group in place of its word."""
    from opponents.field import DEVELOPMENT, HELD_OUT, field
    from opponents.players import GROUPS, probe_listing

    held_out = field(HELD_OUT)
    probes = [name for name, _ in probe_listing() if name not in held_out]  # so that nobody sees these in passing
    groups = dict(zip(GROUPS, (probes, probes, field(DEVELOPMENT), held_out), strict=True))
    return [each for name in names for each in groups.get(name, [name])]

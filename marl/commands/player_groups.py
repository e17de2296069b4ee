"""Words that stand for several players: all probes, or a half of the field."""

from collections.abc import Sequence


def expand_groups(names: Sequence[str]) -> list[str]:
    """The names, with the players of a group in place of its word."""
    from opponents.field import DEVELOPMENT, HELD_OUT, field
    from opponents.players import probe_listing

    probes = [name for name, _ in probe_listing()]
    groups = {"probes": probes, "odd": probes}  # odd: as the probes were called before
    groups.update({half: field(half) for half in (DEVELOPMENT, HELD_OUT)})
    return [each for name in names for each in groups.get(name, [name])]

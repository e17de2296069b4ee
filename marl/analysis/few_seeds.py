"""What results of few seeds can tell, in one line."""

from collections.abc import Sequence
from math import comb

from marl.analysis.groups import RunGroup
from marl.cli.wording import count

ENOUGH = 5  # seeds of a group


def caution(groups: Sequence[RunGroup]) -> str:
    """What can and cannot be concluded if a group has fewer than five seeds; empty if none has."""
    fewest = sorted((len(set(group.seeds)), group.name) for group in groups)
    if fewest[0][0] >= ENOUGH:
        return ""
    advice = f"train at least {ENOUGH} (train --seeds 1-{ENOUGH})"
    few = ", ".join(f"{name} ({number})" for number, name in fewest if number < ENOUGH)
    start = f"Fewer than {ENOUGH} seeds: {few}. It can be said how strong these teams are,"
    if len(groups) == 1:
        return f"{start} not how strong another seed of the configuration would be; {advice}."
    (a, _), (b, _) = fewest[:2]
    by_chance = min(1.0, 2 / comb(a + b, a))  # all of one before all of the other, either way
    return (
        f"{start} not that one configuration is better: even if each seed of one beats all of the other, with {a} and "
        f"{count(b, 'seed')} chance alone does that in {100 * by_chance:.2g} % of comparisons; {advice}."
    )

"""What results of few seeds can tell, in one line."""

from collections.abc import Sequence
from math import comb
from typing import Any

from marl.analysis.groups import RunGroup

ENOUGH = 5  # seeds of a group
# Texts with places for values: the page has them in Chinese, too.
START = "Fewer than {enough} seeds: {few}. It can be said how strong these teams are, "
ADVICE = "train at least {enough} (train --seeds 1-{enough})."
OF_ONE = START + "not how strong another seed of the configuration would be; " + ADVICE
OF_SEVERAL = (
    START + "not that one configuration is better: even if each seed of one beats all of the other, with {a} and {b} "
    "seeds chance alone does that in {chance} % of comparisons; " + ADVICE
)


def caution(groups: Sequence[RunGroup]) -> dict[str, Any] | None:
    """What can and cannot be concluded if a group has fewer than five seeds, as a text and its values; or nothing."""
    fewest = sorted((len(set(group.seeds)), group.name) for group in groups)
    if fewest[0][0] >= ENOUGH:
        return None
    few = ", ".join(f"{name} ({number})" for number, name in fewest if number < ENOUGH)
    values: dict[str, Any] = {"enough": ENOUGH, "few": few}
    if len(groups) == 1:
        return {"text": OF_ONE, "values": values}
    (a, _), (b, _) = fewest[:2]
    by_chance = min(1.0, 2 / comb(a + b, a))  # all of one before all of the other, either way
    return {"text": OF_SEVERAL, "values": values | {"a": a, "b": b, "chance": f"{100 * by_chance:.2g}"}}

"""The opponent of a match in plain Python: what marl.rollout.turn_kernels.assign_opponent computes."""

from bisect import bisect
from itertools import accumulate

from arena.rng import DRAW_RANGE, SLOT_OPPONENT, draw, match_key
from opponents.scheduler import Mix


def chosen_opponent(mix: Mix, seed: int, match_number: int) -> str:
    """Opponent of one match: depends only on the mix, the seed and the match's number over all ranks."""
    names = [name for name, share in mix.items() if share > 0]
    edges = list(accumulate(mix[name] for name in names))
    return names[bisect(edges, draw(match_key(seed, match_number), 0, SLOT_OPPONENT) / DRAW_RANGE * edges[-1])]

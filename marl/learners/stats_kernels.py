"""Statistics of a minibatch, added up on a GPU in one kernel. torch starts ten for it, each longer in its start."""

import math

from arena.backends.loops import item_loop
from arena.jit import njit


@njit
def add_stat(i, stats, norm, stepped, sums, in_a_row):
    """Add statistic i; see Learner._add_stats. norm [1], in_a_row [1]. sums: minibatches, statistics, skipped."""
    if i < stats.shape[0]:
        if math.isfinite(stats[i]):
            sums[1 + i] += stats[i]
    else:
        skipped = 0.0 if math.isfinite(norm[0]) else 1.0
        sums[0] += 1.0
        sums[1 + i] += skipped
        if stepped:
            in_a_row[0] = (in_a_row[0] + 1.0) * skipped


add_stats = item_loop(add_stat)

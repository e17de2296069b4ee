"""A permutation by number, without state and without sorting: a resumed run goes on with the next one."""

from arena.backends.loops import item_loop
from arena.jit import njit
from arena.rng import draw

# Rounds of the Feistel network; a round's draws take slots from round << ROUND_BITS on.
ROUNDS, ROUND_BITS = 8, 24


@njit
def permuted(i, items, key, number):
    """The place of item i in permutation `number` of all items, computed alone: nothing has to be sorted.

    A Feistel network permutes the next power of four; places beyond the items are walked over.
    """
    half = 1
    while 1 << (2 * half) < items:
        half += 1
    mask = (1 << half) - 1
    place = i
    while True:
        left = place >> half
        right = place & mask
        for turn in range(ROUNDS):
            mixed = int(draw(key, number, (turn << ROUND_BITS) + right)) & mask
            left, right = right, left ^ mixed
        place = (left << half) | right
        if place < items:
            return place


@njit
def shuffle_item(i, key, counts, order):
    """Write place i of the next permutation."""
    order[i] = permuted(i, order.shape[0], key, int(counts[1]))


shuffle_items = item_loop(shuffle_item)

"""Counter-based random numbers: a draw is a pure function of (match key, turn, slot).

Only integers, only 32-bit products inside 64-bit words, so the same text gives the same bits in Numba on a CPU,
in a CUDA kernel and in plain Python. There is no generator and no state: any draw of any match can be made again alone.
"""

from arena.jit import njit

MASK32 = 0xFFFFFFFF
GOLDEN = 0x9E3779B9
DRAW_RANGE = 2.0**32  # draws are whole numbers from 0 to below it; a float, for shares of the range

# Every draw of the project has a slot of its own here, so that no two are ever correlated by mistake.
# Slots of a match's turn. A draw that is repeated because a cell was taken adds RETRY to the slot; draw_below, which
# draws again to be unbiased, adds UNBIAS.
SLOT_REVERSAL = 0  # + snake: which way a snake goes that asked to reverse
SLOT_START = 16  # + snake: where a snake starts
SLOT_BEAN = 32  # + number of the bean among those missing
SLOT_POLICY = 64  # + snake: moves of scripted opponents that play at random
SLOT_NOISE = 80  # + snake: whether an opponent with noise plays at random this turn
SLOT_SUBMISSION = 90  # + snake: moves in place of those that a submission did not give
SLOT_OPPONENT = 200  # which opponent a match of a training run meets
SLOT_EXPLORE = 208  # + snake: whether a learner's action is random
SLOT_ACTION = 216  # + snake: which action a policy takes
# Slots of a rank's batch: row i takes 2 i and 2 i + 1.
SLOT_BATCH = 256
SLOT_TARGET_NOISE = 1 << 26  # + 24 i: two for each logit of the row's three snakes
# Keys that are no match's: numbers beyond all matches of a run.
NUMBER_BATCHES = 1 << 40  # + rank: batches and their order
NUMBER_PAST_SELVES = 1 << 41  # which past selves play
RETRY = 1 << 8
UNBIAS = 1 << 20


@njit
def mix32(x):
    """Spread the bits of a 32-bit number over all 32 bits (a bijection)."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & MASK32
    x = ((x ^ (x >> 15)) * 0x846CA68B) & MASK32
    return x ^ (x >> 16)


@njit
def match_key(seed, number):
    """63-bit key of match `number` of the run `seed`: two independent 32-bit chains over all four words."""
    high = GOLDEN
    low = MASK32 - GOLDEN
    for word in (seed & MASK32, (seed >> 32) & MASK32, number & MASK32, (number >> 32) & MASK32):
        high = mix32((high ^ word) + GOLDEN & MASK32)
        low = mix32((low ^ word) + 1 & MASK32)
    return ((high & 0x7FFFFFFF) << 32) | low


@njit
def draw(key, turn, slot):
    """32 random bits for this match, turn and slot."""
    x = mix32(((key & MASK32) ^ (turn * GOLDEN)) & MASK32)
    x = mix32((x ^ (key >> 32)) + GOLDEN & MASK32)
    return mix32((x ^ slot) + GOLDEN & MASK32)


@njit
def draw_below(key, turn, slot, bound):
    """Uniform integer in [0, bound), without bias: multiply-shift, and redraw in the few values that would tip it."""
    tipping = (MASK32 + 1) % bound
    product = draw(key, turn, slot) * bound
    while (product & MASK32) < tipping:
        slot += UNBIAS
        product = draw(key, turn, slot) * bound
    return product >> 32

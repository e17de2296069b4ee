"""The loops of turn_loops.py on a GPU: one thread per match, seat or batch row. Imported only when CUDA is used."""

from arena.cuda import cuda
from marl import turn_loops as loops


@cuda.jit(cache=True)
def draw_all_moves(state, keys, seats, logits, epsilon, moves):
    i = cuda.grid(1)
    if i < seats.shape[0]:
        loops.draw_moves(i, state, keys, seats, logits, epsilon, moves)


@cuda.jit(cache=True)
def meet_all(state, keys, edges, which):
    b = cuda.grid(1)
    if b < state.shape[0]:
        loops.meet(b, state, keys, edges, which)


@cuda.jit(cache=True)
def finish_all(
    state, played, ate, died, gain, over, side, which, weights, counts, moves, rewards, ended, totals, tally
):
    b = cuda.grid(1)
    if b < state.shape[0]:
        loops.finish_turn(
            b, state, played, ate, died, gain, over, side, which, weights, counts, moves, rewards, ended, totals, tally
        )


@cuda.jit(cache=True)
def sample_all(key, counts, rewards, over, moves, steps, gamma, here, there, returns, discounts, shares):
    i = cuda.grid(1)
    if i < here.shape[0]:
        loops.sample_turn(i, key, counts, rewards, over, moves, steps, gamma, here, there, returns, discounts, shares)

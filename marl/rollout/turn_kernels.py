"""The loops of turn_loops.py and ppo_loops.py on a GPU: one thread per item. Imported only when CUDA is used."""

from arena.backends.numba_cuda import cuda, cuda_kernel
from marl.rollout import ppo_loops
from marl.rollout import turn_loops as loops


@cuda_kernel
def draw_all_moves(state, keys, seats, frames, logits, epsilon, masked, moves):
    i = cuda.grid(1)
    if i < seats.shape[0]:
        loops.draw_moves(i, state, keys, seats, frames, logits, epsilon, masked, moves)


@cuda_kernel
def meet_all(state, keys, edges, fixed, which):
    b = cuda.grid(1)
    if b < state.shape[0]:
        loops.meet(b, state, keys, edges, fixed, which)


@cuda_kernel
def finish_all(
    state, played, ate, died, gain, over, slot, side, frames, which, weights, counts, moves, rewards, ended, totals,
    tally,
):  # fmt: skip
    g = cuda.grid(1)
    if g < slot.shape[0]:
        loops.finish_turn(
            g, state, played, ate, died, gain, over, slot, side, frames, which, weights, counts, moves, rewards, ended,
            totals, tally,
        )  # fmt: skip


@cuda_kernel
def sample_all(key, counts, rewards, over, moves, steps, gamma, here, there, returns, discounts, shares):
    i = cuda.grid(1)
    if i < here.shape[0]:
        loops.sample_turn(i, key, counts, rewards, over, moves, steps, gamma, here, there, returns, discounts, shares)


@cuda_kernel
def note_all(state, seats, frames, answers, played, counts, masked, barred, log_chances, values):
    i = cuda.grid(1)
    if i < seats.shape[0]:
        ppo_loops.note(i, state, seats, frames, answers, played, counts, masked, barred, log_chances, values)


@cuda_kernel
def advantages_all(rewards, over, values, gamma, decay, advantages, returns):
    i = cuda.grid(1)
    if i < rewards.shape[1] * rewards.shape[2]:
        ppo_loops.advantage(i, rewards, over, values, gamma, decay, advantages, returns)


@cuda_kernel
def shuffle_all(key, counts, order):
    i = cuda.grid(1)
    if i < order.shape[0]:
        order[i] = ppo_loops.shuffled(i, order.shape[0], key, int(counts[1]))


@cuda_kernel
def gradients_all(
    here, answers, moves, barred, log_chances, values, advantages, returns, moments, spreads, clip, value_clip,
    value_weight, gradients, numbers,
):  # fmt: skip
    i = cuda.grid(1)
    if i < numbers.shape[0]:
        ppo_loops.gradient(
            i, here, answers, moves, barred, log_chances, values, advantages, returns, moments, spreads, clip,
            value_clip, value_weight, gradients, numbers,
        )  # fmt: skip

"""The same bits everywhere: in any split of a batch, on one core or two, in plain Python, in a kernel, on a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import numba
import numpy as np
import pytest
import torch
from helpers.movers import random_moves, semi_greedy_moves
from helpers.run_matches import elsewhere, on_cpu

from arena import BatchArena
from arena.backends import cpu
from arena.encoders import ENCODERS

SEED = 5


# --- splits of a batch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_several_arenas_play_the_same_matches_as_one(ranks) -> None:
    """1 x 16 = 2 x 8 = 4 x 4 = 16 x 1, also after matches were started again."""
    each = 16 // ranks
    whole = BatchArena(16, seed=SEED)
    parts = [BatchArena(each, seed=SEED, first_match=rank * each, stride=16) for rank in range(ranks)]
    for arena in (whole, *parts):
        arena.start()
    generator = np.random.default_rng(SEED)
    for turn in range(230):
        moves = torch.from_numpy(semi_greedy_moves(whole.state.numpy(), generator))
        again = whole.play_turn(moves).over | torch.from_numpy(generator.random(16) < 0.01)
        for rank, part in enumerate(parts):
            mine = slice(rank * each, (rank + 1) * each)
            events = part.play_turn(moves[mine])
            for name, a, b in zip(events._fields, events, whole.events, strict=True):
                assert torch.equal(a, b[mine]), f"{name}, rank {rank}, turn {turn}, seed {SEED}"
            part.start(again[mine])
        whole.start(again)
        numbers = torch.cat([part.numbers for part in parts])
        state = torch.cat([part.state for part in parts])
        assert torch.equal(numbers, whole.numbers), f"turn {turn}, seed {SEED}"
        assert torch.equal(state, whole.state), f"turn {turn}, seed {SEED}"
    assert (whole.numbers >= 16).all(), "every slot should have been started again"


def test_a_slot_started_again_goes_on_by_the_stride() -> None:
    arena = BatchArena(3, first_match=10, stride=100)
    arena.start()
    assert arena.numbers.tolist() == [10, 11, 12]
    arena.start(torch.tensor([False, True, False]))
    assert arena.numbers.tolist() == [10, 111, 12]


def test_a_restarted_match_equals_that_match_in_a_fresh_arena() -> None:
    old = BatchArena(4, seed=SEED)
    old.start()
    old.play_turn(torch.zeros(4, 6, dtype=torch.int64))
    old.start()
    fresh = BatchArena(4, seed=SEED, first_match=4)
    fresh.start()
    assert torch.equal(old.state, fresh.state)
    assert torch.equal(old.keys, fresh.keys)


def test_another_seed_gives_other_matches() -> None:
    a, b = BatchArena(8, seed=1), BatchArena(8, seed=2)
    a.start()
    b.start()
    assert not (a.state == b.state).all(dim=1).any()


# --- loops and threads ----------------------------------------------------------------------------------------------


@contextmanager
def loops(serial: bool) -> Iterator[None]:
    """The CPU's loops are all in order, or all parallel, whatever the size of the batch."""
    asked = []

    def runs_parallel(matches: int) -> bool:
        asked.append(matches)
        return not serial

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "runs_parallel", runs_parallel)
        yield
    assert asked, "nothing asked which loop to take: this compares a loop with itself"


def play_out(mover, serial: bool, matches: int = 2048) -> list[int]:
    """Whole matches; a checksum of state and events for every turn."""
    with loops(serial):
        return checksums(mover, matches)


def checksums(mover, matches: int) -> list[int]:
    arena = BatchArena(matches, seed=SEED)
    arena.start()
    generator = np.random.default_rng(SEED)
    weights = torch.from_numpy(np.random.default_rng(1).integers(1, 2**40, arena.state.shape[1]))
    sums = []
    for _ in range(200):
        events = arena.play_turn(torch.from_numpy(mover(arena.state.numpy(), generator)))
        for tensor in (arena.state[:: max(1, matches // 256)], *events):
            flat = tensor.long()
            flat = flat * weights[: flat.shape[-1]] if flat.ndim > 1 else flat
            sums.append(int((flat.reshape(len(flat), -1).sum(dim=1) * torch.arange(1, len(flat) + 1)).sum()))
    assert bool(arena.events.over.all())
    return [*sums, hash(arena.state.numpy().tobytes())]


@pytest.fixture
def threads_put_back():
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


@pytest.fixture(scope="module")
def serial_sums() -> list[int]:
    return play_out(random_moves, serial=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_parallel_loop_plays_the_same_matches_as_the_serial_one(threads, serial_sums, threads_put_back) -> None:
    if threads > numba.config.NUMBA_NUM_THREADS:
        pytest.skip(f"this machine has fewer than {threads} threads")
    numba.set_num_threads(threads)
    assert play_out(random_moves, serial=False) == serial_sums, f"seed {SEED}"


def test_long_snakes_play_the_same_in_both_loops() -> None:
    a = play_out(semi_greedy_moves, serial=True, matches=128)
    b = play_out(semi_greedy_moves, serial=False, matches=128)
    assert a == b, f"seed {SEED}"


@pytest.fixture(scope="module")
def grown() -> BatchArena:
    """Matches in which some snakes are long."""
    arena = BatchArena(400, seed=SEED)
    arena.start()
    generator = np.random.default_rng(SEED)
    for _ in range(80):
        arena.play_turn(torch.from_numpy(semi_greedy_moves(arena.state.numpy(), generator)))
    return arena


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
@pytest.mark.parametrize("threads", [1, 2])
def test_both_loops_encode_the_same(encoder, threads, grown, threads_put_back) -> None:
    """All seats, and a part of them in no order whose last chunk is not full."""
    if threads > numba.config.NUMBA_NUM_THREADS:
        pytest.skip(f"this machine has fewer than {threads} threads")
    numba.set_num_threads(threads)
    some = torch.from_numpy(np.random.default_rng(SEED).permutation(2400)[:1000].astype(np.int32))
    with loops(serial=True):
        expected = [grown.observe(encoder), grown.observe(encoder, seats=some)]
    with loops(serial=False):
        found = [grown.observe(encoder), grown.observe(encoder, seats=some)]
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b), f"seed {SEED}"


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_large_batches_are_encoded_like_small_ones(encoder, grown) -> None:
    together = grown.observe(encoder)
    small = BatchArena(50, seed=SEED)
    for at in range(0, 400, 50):
        small.state.copy_(grown.state[at : at + 50])
        assert torch.equal(small.observe(encoder), together[at : at + 50]), f"matches from {at}, seed {SEED}"


# --- plain Python and the CUDA simulator ----------------------------------------------------------------------------


def test_plain_python_and_the_kernels_in_the_cuda_simulator_play_the_same_as_compiled_code() -> None:
    kernels, plain = ("simulator", 3, 4, SEED), ("cpu", 3, 41, SEED)  # in one process: to load torch takes longer
    found = elsewhere(*kernels, *plain, NUMBA_DISABLE_JIT="1", NUMBA_ENABLE_CUDASIM="1").split()
    assert found[:4] == list(on_cpu(*kernels[1:])), f"kernels, seed {SEED}"
    assert found[4:] == list(on_cpu(*plain[1:])), f"plain Python, seed {SEED}"


# --- a real GPU -----------------------------------------------------------------------------------------------------


def assert_same_matches(gpu: BatchArena, host: BatchArena, when: str) -> None:
    for name in ("state", "keys", "numbers"):
        assert torch.equal(getattr(gpu, name).cpu(), getattr(host, name)), f"{name} {when}, seed {SEED}"
    for name, a, b in zip(host.events._fields, gpu.events, host.events, strict=True):
        assert torch.equal(a.cpu(), b), f"{name} {when}, seed {SEED}"


@pytest.mark.needs_cuda
@pytest.mark.parametrize("mover", [random_moves, semi_greedy_moves])
def test_gpu_and_cpu_play_bit_identical_matches(mover) -> None:
    host, gpu = BatchArena(1024, seed=SEED), BatchArena(1024, device="cuda", seed=SEED)
    host.start()
    gpu.start()
    generator = np.random.default_rng(SEED)
    for turn in range(200):
        moves = torch.from_numpy(mover(host.state.numpy(), generator))
        host.play_turn(moves)
        gpu.play_turn(moves.cuda())
        assert_same_matches(gpu, host, f"after turn {turn}")
        if turn % 20 == 0:
            for encoder in sorted(ENCODERS):
                assert torch.equal(gpu.observe(encoder).cpu(), host.observe(encoder)), f"{encoder}, turn {turn}"
    assert bool(host.events.over.all())
    host.start(host.events.over)
    gpu.start(gpu.events.over)
    assert_same_matches(gpu, host, "after a new start")


@pytest.mark.needs_cuda
@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_a_captured_graph_plays_and_observes_like_plain_calls(encoder) -> None:
    plain, captured = (BatchArena(256, device="cuda", seed=SEED) for _ in range(2))
    moves = torch.zeros(256, 6, dtype=torch.int64, device="cuda")
    captured.start()
    seen = captured.observe(encoder)  # compiles before the capture
    captured.play_turn(moves)
    captured.observe(encoder, out=seen)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured.play_turn(moves)
        captured.observe(encoder, out=seen)
    plain.start()
    plain.start()
    captured.start()
    assert torch.equal(plain.state, captured.state)
    generator = torch.Generator("cuda").manual_seed(SEED)
    for turn in range(50):
        moves.copy_(torch.randint(0, 4, moves.shape, generator=generator, device="cuda"))
        graph.replay()
        plain.play_turn(moves)
        assert torch.equal(plain.state, captured.state), f"turn {turn}, seed {SEED}"
        assert torch.equal(plain.observe(encoder), seen), f"turn {turn}, seed {SEED}"


@pytest.mark.needs_cuda
@pytest.mark.parametrize("bad", [4, -1, 256, 2**40])
def test_bad_actions_on_a_gpu_leave_their_match_alone(bad) -> None:
    arena = BatchArena(4, device="cuda", seed=SEED)
    arena.start()
    before = arena.state.clone()
    moves = torch.zeros(4, 6, dtype=torch.int64, device="cuda")
    moves[2, 3] = bad
    arena.play_turn(moves)
    changed = (arena.state != before).any(dim=1).tolist()
    assert changed == [True, True, False, True]


@pytest.mark.needs_cuda
def test_bad_actions_on_a_gpu_are_reported_once_by_check() -> None:
    arena = BatchArena(4, device="cuda", seed=SEED)
    arena.start()
    moves = torch.full((4, 6), 4, dtype=torch.int64, device="cuda")
    arena.play_turn(moves)
    with pytest.raises(ValueError, match="0-3"):
        arena.check()
    arena.check()
    arena.get_match(0)


@pytest.mark.needs_cuda
def test_bad_actions_on_a_gpu_have_no_events() -> None:
    """Events of the turn before must not be counted again."""
    arena = BatchArena(512, device="cuda", seed=SEED)
    arena.start()
    for _ in range(5):  # somebody dies of this
        events = arena.play_turn(torch.zeros(512, 6, dtype=torch.int64, device="cuda"))
    arena.play_turn(torch.full((512, 6), 4, dtype=torch.int64, device="cuda"))
    assert not bool(events.died.any() | events.ate.any() | (events.reward != 0).any())


@pytest.mark.needs_cuda
@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_a_gpu_observes_no_seats_at_all_without_complaint(encoder) -> None:
    arena = BatchArena(4, device="cuda", seed=SEED)
    arena.start()
    assert len(arena.observe(encoder, seats=torch.zeros(0, dtype=torch.int32, device="cuda"))) == 0


@pytest.mark.needs_cuda
def test_matches_travel_between_devices_as_dictionaries() -> None:
    host, gpu = BatchArena(8, seed=SEED), BatchArena(8, device="cuda", seed=SEED)
    host.start()
    for i in range(8):
        gpu.set_match(i, host.get_match(i))
        assert gpu.get_match(i) == host.get_match(i)

"""The same decisions everywhere: on one core or two, in plain Python, in a kernel, on a GPU."""

import numba
import numpy as np
import pytest
import torch
from helpers.drawn_boards import NO_MOVE, Positions, decisions, every_seat, positions_in_play
from helpers.run_opponents import FEW, elsewhere, on_cpu

from arena import BatchArena
from arena.backends.parallel import bind
from arena.rng import DRAW_RANGE
from arena.rules import SNAKES
from opponents import loops
from opponents.scripted import SCRIPTED

SEED = 41


@pytest.fixture(scope="module")
def in_play() -> Positions:
    return positions_in_play(SEED)


def some(in_play: Positions, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions from all over the matches, and as the last one a match that was never started."""
    chosen = torch.linspace(0, len(in_play.state) - 1, count).long()
    state, keys = in_play.state[chosen].numpy().copy(), in_play.keys[chosen].numpy().copy()
    state[-1] = BatchArena(1).state[0].numpy()
    return state, keys


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert set(found) == set(expected)
    for name, moves in expected.items():
        assert (moves != NO_MOVE).all()
        np.testing.assert_array_equal(found[name], moves, err_msg=f"{name}, seed {SEED}")


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("name", SCRIPTED)
def test_the_parallel_loop_decides_like_the_serial_one(name, noise, in_play) -> None:
    one = loops._cpu_loop(SCRIPTED[name])
    matches = len(in_play.state)
    seats = every_seat(matches).numpy()[5:-3]  # chunks that begin and end within a match
    which = np.zeros(matches, np.uint8)
    arguments = (in_play.state.numpy(), in_play.keys.numpy(), seats, which, 0, int(noise * DRAW_RANGE))
    serial, parallel, parallel_on_one = np.full((3, matches, SNAKES), NO_MOVE, np.int8)
    one(*arguments, serial)
    bind(loops.decide_parallel, one, *arguments, parallel)()
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        bind(loops.decide_parallel, one, *arguments, parallel_on_one)()
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(parallel, serial, err_msg=f"seed {SEED}")
    np.testing.assert_array_equal(parallel_on_one, serial, err_msg=f"seed {SEED}")
    assert (serial.reshape(-1)[seats] != NO_MOVE).all()


def test_plain_python_and_the_kernels_in_the_cuda_simulator_decide_like_compiled_code(in_play, tmp_path) -> None:
    positions = some(in_play, 30)
    found = elsewhere("both", *positions, tmp_path, NUMBA_DISABLE_JIT="1", NUMBA_ENABLE_CUDASIM="1")
    expected = on_cpu(*positions)
    assert_same(found, expected | {f"kernel of {name}": moves[FEW] for name, moves in expected.items()})


# --- a real GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.needs_cuda
@pytest.mark.parametrize("name", SCRIPTED)
def test_gpu_and_cpu_decide_alike(name) -> None:
    host, gpu = BatchArena(512, seed=SEED), BatchArena(512, device="cuda", seed=SEED)
    host.start()
    gpu.start()
    which = (torch.arange(512) % 4).to(torch.uint8)
    for turn in range(60):
        plain = decisions(name, host)
        assert torch.equal(decisions(name, gpu).cpu(), plain), f"turn {turn}, seed {SEED}"
        moves = decisions(name, host, noise=0.05)
        assert torch.equal(decisions(name, gpu, noise=0.05).cpu(), moves), f"with noise, turn {turn}, seed {SEED}"
        own = decisions(name, gpu, which=which.cuda(), mine=2).cpu()
        assert torch.equal(own, torch.where((which == 2)[:, None], plain, NO_MOVE)), f"own matches, turn {turn}"
        host.play_turn(moves)
        gpu.play_turn(moves.cuda())
    assert torch.equal(gpu.state.cpu(), host.state), f"seed {SEED}"


@pytest.mark.needs_cuda
@pytest.mark.parametrize("name", SCRIPTED)
def test_gpu_and_cpu_decide_alike_on_late_and_odd_positions(name, in_play) -> None:
    host = in_play.arena()
    gpu = BatchArena(host.matches, device="cuda")
    gpu.state.copy_(host.state)
    gpu.keys.copy_(host.keys)
    for noise in (0.0, 0.3):
        expected = decisions(name, host, noise=noise)
        assert torch.equal(decisions(name, gpu, noise=noise).cpu(), expected), f"noise {noise}, seed {SEED}"


@pytest.mark.needs_cuda
@pytest.mark.parametrize("name", SCRIPTED)
def test_a_captured_graph_decides_and_plays_like_plain_calls(name) -> None:
    plain, captured = (BatchArena(256, device="cuda", seed=SEED) for _ in range(2))
    seats = every_seat(256, "cuda")
    which = torch.zeros(256, dtype=torch.uint8, device="cuda")
    moves = torch.zeros(256, SNAKES, dtype=torch.int8, device="cuda")
    plain_moves = torch.zeros_like(moves)
    for arena, into in ((plain, plain_moves), (captured, moves)):
        arena.start()
        loops.act(SCRIPTED[name], arena, seats, into, noise=0.1, which=which)  # compiles before the capture
        arena.play_turn(into)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loops.act(SCRIPTED[name], captured, seats, moves, noise=0.1, which=which)
        captured.play_turn(moves)
    assert torch.equal(plain.state, captured.state), "capturing plays nothing"
    for turn in range(50):
        graph.replay()
        loops.act(SCRIPTED[name], plain, seats, plain_moves, noise=0.1, which=which)
        plain.play_turn(plain_moves)
        assert torch.equal(plain_moves, moves), f"turn {turn}, seed {SEED}"
        assert torch.equal(plain.state, captured.state), f"turn {turn}, seed {SEED}"


@pytest.mark.needs_cuda
@pytest.mark.parametrize("name", SCRIPTED)
def test_a_gpu_decides_for_no_seats_at_all_without_complaint(name) -> None:
    arena = BatchArena(4, device="cuda", seed=SEED)
    arena.start()
    moves = decisions(name, arena, torch.zeros(0, dtype=torch.int32, device="cuda"))
    assert bool((moves == NO_MOVE).all())

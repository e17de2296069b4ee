"""Turns in one compiled call are the turns that Python plays, to the bit."""

import numba
import pytest
import torch
from helpers.training_states import small_state

from marl.compute.process_state import process_state_restored
from marl.compute.threads import use_threads as set_threads

SEED = 23
# Turn -> the mix from there on: opponents come, go and come back while matches are going on.
MIXES = {0: {"level0": 0.5, "level1": 0.5}, 48: {"level2": 1.0}, 96: {"level0": 0.5, "level2": 0.5}}


@pytest.fixture(autouse=True)
def plain_products(monkeypatch):
    """Of torch's BLAS library, which compiled code can call. Tells the seed."""
    print(f"seed {SEED}")
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)


@pytest.fixture
def use_threads():
    """A function that sets the threads of torch and Numba, as a run does."""

    def use(number: int) -> None:
        if number > numba.config.NUMBA_NUM_THREADS:
            pytest.skip(f"needs {number} cores")
        set_threads(number, halves=number > 1)

    with process_state_restored():
        yield use


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("words", [("--algo", "ppo"), ()], ids=["ppo", "ddpg"])
def test_turns_are_those_of_python(words, threads, use_threads) -> None:
    use_threads(threads)
    states = [small_state(*words, seed=SEED, overlaps=threads > 1) for _ in range(2)]
    plain = states[1].rollout
    plain.bind_turns(lambda obs, outputs: (), plain._runner)
    assert [len(state.rollout._parts) for state in states] == [threads, 0]
    for state in states:
        state.rollout.start()
    for turn in range(0, 144, 8):
        for state in states:
            if turn in MIXES:
                state.rollout.set_mix(MIXES[turn])
            state.rollout.epsilon.fill_(0.2)
            state.rollout.play_turns(8, state.learner.act)
        for name, tensor in plain._saved().items():
            assert torch.equal(states[0].rollout._saved()[name], tensor), f"{name} after turn {turn}, seed {SEED}"
        ours, theirs = (vars(state.buffer) for state in states)
        for name, tensor in theirs.items():
            if isinstance(tensor, torch.Tensor):
                assert torch.equal(ours[name], tensor), f"{name} after turn {turn}, seed {SEED}"
    assert plain.pop_results().deaths.sum() > 0, "matches in which something happens"


def test_both_sides_learn_on_one_thread_only(use_threads) -> None:
    for threads in (1, 2):
        use_threads(threads)
        state = small_state("--self_play", "0.5", seed=SEED, overlaps=threads > 1)
        assert len(state.rollout.team_match) > state.rollout.matches
        assert len(state.rollout._parts) == (1 if threads == 1 else 0)


def test_python_plays_where_it_has_to(use_threads) -> None:
    use_threads(1)
    for words in (("--algo", "ppo_lstm"), ("--self_play", "0.5", "--no-learn_both_sides"), ("--compile", "off")):
        assert not small_state(*words, seed=SEED).rollout._parts, words

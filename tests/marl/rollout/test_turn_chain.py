"""Turns in one compiled call are the turns that Python plays, to the bit."""

import numba
import pytest
import torch
from helpers.training_states import small_state

SEED = 23
pytestmark = pytest.mark.usefixtures("one_thread")
# Turn -> the mix from there on: opponents come, go and come back while matches are going on.
MIXES = {0: {"level0": 0.5, "level1": 0.5}, 48: {"level2": 1.0}, 96: {"level0": 0.5, "level2": 0.5}}


@pytest.fixture(autouse=True)
def one_compiled_thread(monkeypatch):
    """As in a rank of one core."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)


@pytest.mark.parametrize("words", [("--algo", "ppo"), ()], ids=["ppo", "ddpg"])
def test_turns_are_those_of_python(words) -> None:
    states = [small_state(*words, seed=SEED) for _ in range(2)]
    plain = states[1].rollout
    plain.bind_turns(None)
    assert states[0].rollout._chain is not None
    for state in states:
        state.rollout.start()
    for turn in range(0, 144, 8):
        for state in states:
            if turn in MIXES:
                state.rollout.set_mix(MIXES[turn])
            state.rollout.epsilon.fill_(0.2)
            state.rollout.play_turns(8, state.learner.act, state.learner.record_step)
        for name, tensor in plain._saved().items():
            assert torch.equal(states[0].rollout._saved()[name], tensor), f"{name} after turn {turn}, seed {SEED}"
        ours, theirs = (vars(state.buffer) for state in states)
        for name, tensor in theirs.items():
            if isinstance(tensor, torch.Tensor):
                assert torch.equal(ours[name], tensor), f"{name} after turn {turn}, seed {SEED}"
    assert plain.pop_results().deaths.sum() > 0, "matches in which something happens"


def test_python_plays_where_it_has_to() -> None:
    for words in (("--algo", "ppo_lstm"), ("--self_play", "0.5", "--no-learn_both_sides"), ("--no-fused",)):
        assert small_state(*words, seed=SEED).rollout._chain is None, words
    numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
    if numba.get_num_threads() > 1:
        assert small_state(seed=SEED).rollout._chain is None

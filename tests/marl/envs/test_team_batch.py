"""TeamBatch: tensors that are handed out stay as they are, and travel to and from other libraries without a copy."""

import numpy as np
import pytest
import torch

from arena.errors import ArenaError
from arena.rules import TEAM
from marl import team_env
from marl.envs.team_batch import TeamBatch, TeamTurn
from marl.errors import UserError

pytestmark = pytest.mark.usefixtures("one_thread")
SEED = 5
MATCHES = 2


def drawn(rng: np.random.Generator, mask: torch.Tensor) -> np.ndarray:
    """Actions that are no reversals."""
    return (rng.random(mask.shape) * mask.numpy()).argmax(-1)


class FromAnotherLibrary:
    """An array that has nothing but DLPack, as JAX's arrays on a GPU."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("encoder", ["features", "canonical"])
def test_tensors_and_arrays_play_the_same_matches(encoder) -> None:
    batch = team_env("level1", MATCHES, encoder=encoder, seed=SEED, api="torch")
    env = team_env("level1", MATCHES, encoder=encoder, seed=SEED)
    assert isinstance(batch, TeamBatch)
    obs, infos = batch.reset()
    seen, _ = env.reset()
    rng = np.random.default_rng(SEED)
    for turn in range(201):
        actions = drawn(rng, infos["action_mask"])
        kept = obs, obs.clone()
        given = (torch.from_numpy(actions), actions.astype(np.uint8), actions.tolist(), FromAnotherLibrary(actions))
        played = batch.step(given[turn % len(given)])
        assert isinstance(played, TeamTurn)
        assert torch.equal(*kept), "tensors that were handed out stay as they are"
        seen, *rest, seen_infos = env.step(actions)
        obs, infos = played.obs, played.infos
        for tensor, array in zip(played[:4], (seen, *rest), strict=True):
            assert np.array_equal(tensor.numpy(), array)
        assert infos.keys() == seen_infos.keys()
        assert all(np.array_equal(infos[name].numpy(), seen_infos[name]) for name in infos)


def test_observations_are_read_without_a_copy() -> None:
    obs, infos = team_env("level0", MATCHES, seed=SEED, api="torch").reset()
    for tensor in (obs, infos["action_mask"]):
        there = np.from_dlpack(tensor)
        again = torch.from_dlpack(there)
        assert there.__array_interface__["data"][0] == tensor.data_ptr() == again.data_ptr()
        assert there.shape == tensor.shape
    env = team_env("level0", MATCHES, seed=SEED)
    array, _ = env.reset()
    assert array.__array_interface__["data"][0] == env.batch._obs.data_ptr()


def test_jax_reads_observations_and_sends_actions() -> None:
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed")
    batch = team_env("level0", MATCHES, seed=SEED, api="torch")
    obs, infos = batch.reset()
    array = jnp.from_dlpack(obs)
    assert array.unsafe_buffer_pointer() == obs.data_ptr()
    actions = jnp.argmax(jnp.from_dlpack(infos["action_mask"]), -1)
    assert batch.step(actions).obs.shape == array.shape


def test_matches_start_when_they_are_told() -> None:
    batch = team_env("level0", MATCHES, "team", seed=SEED, api="torch")
    obs, infos = batch.reset()
    rng = np.random.default_rng(SEED)
    for turn in range(1, 201):
        rewards, ended = batch.play_turn(drawn(rng, infos["action_mask"]))
        batch.observe()
        infos["action_mask"] = batch.action_mask()
        assert rewards.shape == (MATCHES,)
        assert ended.tolist() == [turn == 200] * MATCHES
    batch.start(torch.tensor([True, False]))
    assert batch.arena.numbers.tolist() == [2, 1]
    assert batch.scores()[0].shape == (MATCHES,)
    assert obs.shape == (MATCHES, TEAM, 80)


def test_mistakes() -> None:
    with pytest.raises(UserError, match="api is 'rllib'; allowed: gymnasium, sb3, torchrl, torch"):
        team_env("level0", MATCHES, api="rllib")
    batch = team_env("level0", MATCHES, api="torch")
    for call in (batch.action_mask, lambda: batch.step([0] * 6)):
        with pytest.raises(ArenaError, match=r"call reset\(\) first"):
            call()
    batch.reset()
    for actions, part in (
        (torch.zeros(6), r"float32 \[6\]; need whole numbers \[6\]"),
        (torch.zeros(6, dtype=torch.bool), r"bool \[6\]"),
        (torch.zeros(5, dtype=torch.int8), r"int8 \[5\]"),
        ([0, 0, 0, 0, 0, -1], "from -1 to 0"),
        ("up", "need whole numbers"),
    ):
        with pytest.raises(ArenaError, match=part):
            batch.step(actions)

"""TeamTorchrlEnv: specs, rollouts over the end of matches and partial resets as TorchRL defines them."""

import sys
import warnings

import numpy as np
import pytest
import torch

from marl import team_env
from marl.errors import UserError

pytestmark = pytest.mark.usefixtures("one_thread")
SEED = 9
MATCHES = 2


def test_one_line_without_the_package(monkeypatch) -> None:
    for package in ("torchrl", "tensordict"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "marl.envs.team_torchrl_env", raising=False)
    with pytest.raises(
        UserError, match=r"^api='torchrl' needs the package torchrl \(.*\); install it with: .*torchrl\]"
    ):
        team_env("level0", MATCHES, api="torchrl")


@pytest.fixture
def torchrl():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package's own imports
        return pytest.importorskip("torchrl.envs.utils", reason="torchrl is not installed")


@pytest.mark.parametrize("agent", ["snake", "team"])
def test_specs_and_a_rollout_over_the_end_of_matches(torchrl, agent) -> None:
    env = team_env("level1", MATCHES, agent, api="torchrl")
    torchrl.check_env_specs(env, seed=SEED)
    env.set_seed(SEED)
    rollout = env.rollout(203, break_when_any_done=False)
    other = team_env("level1", MATCHES, agent)
    obs, infos = other.reset(seed=SEED)
    assert rollout.shape == (env.numel(), 203)
    for turn in range(203):
        now = rollout[:, turn]
        assert (now["observation"].numpy() == obs).all()
        assert (now["action_mask"].numpy() == infos["action_mask"]).all()
        obs, rewards, terminated, _, infos = other.step(now["action"].numpy())
        assert np.allclose(now["next", "reward"][:, 0].numpy(), rewards)
        assert (now["next", "done"][:, 0].numpy() == terminated).all()
        assert (now["next", "terminated"] == now["next", "done"]).all()
        if turn == 199:
            assert (now["next", "observation"].numpy() == infos["final_obs"]).all()
            assert (now["next", "score"].numpy() == infos["score"]).all()
            assert (now["next", "foe_score"].numpy() == infos["foe_score"]).all()
    env.close()


def test_a_partial_reset_starts_whole_matches(torchrl) -> None:
    env = team_env("level0", MATCHES, seed=SEED, api="torchrl")
    state = env.reset()
    state["_reset"] = torch.tensor([False] * 3 + [True] * 3)[:, None]
    env.reset(state)
    assert env.batch.arena.numbers.tolist() == [0, 3]
    state["_reset"] = torch.tensor([True] * 2 + [False] * 4)[:, None]
    with pytest.raises(UserError, match="all three snakes"):
        env.reset(state)

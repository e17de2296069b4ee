"""TeamSb3Env: a VecEnv as Stable-Baselines3 and sb3-contrib define it, and one line where the package is missing."""

import sys

import numpy as np
import pytest

from marl import team_env
from marl.errors import UserError

SEED = 3
MATCHES = 2


def test_one_line_without_the_package(monkeypatch) -> None:
    for package in ("stable_baselines3", "stable_baselines3.common.vec_env"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "marl.envs.team_sb3_env", raising=False)
    with pytest.raises(UserError, match=r"^api='sb3' needs the package stable-baselines3; install it with: .*\[sb3\]"):
        team_env("level0", MATCHES, api="sb3")


@pytest.fixture
def sb3():
    print(f"seed {SEED}")
    return pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")


def masked(rng: np.random.Generator, env) -> np.ndarray:
    masks = np.stack(env.env_method("action_masks")).reshape(*env.batch.shape, 4)
    return (rng.random(masks.shape) * masks).argmax(-1)


@pytest.mark.parametrize("agent", ["snake", "team"])
def test_a_match_as_sb3_sees_it(sb3, agent) -> None:
    env, other = team_env("level1", MATCHES, agent, api="sb3"), team_env("level1", MATCHES, agent)
    assert isinstance(env, sb3.common.vec_env.VecEnv)
    env.seed(SEED)
    obs, rng = env.reset(), np.random.default_rng(SEED)
    expected, _ = other.reset(seed=SEED)
    assert (obs == expected).all()
    for turn in range(1, 201):
        actions = masked(rng, env)
        obs, rewards, dones, infos = env.step(actions)
        expected, expected_rewards, terminated, _, expected_infos = other.step(actions)
        assert (obs == expected).all()
        assert np.allclose(rewards, expected_rewards)
        assert (dones == terminated).all()
        assert dones.all() == dones.any() == (turn == 200)
        assert [info["TimeLimit.truncated"] for info in infos] == [False] * env.num_envs
        assert all(("terminal_observation" in info) == (turn == 200) for info in infos)
    for i, info in enumerate(infos):
        assert (info["terminal_observation"] == expected_infos["final_obs"][i]).all()
        assert (info["score"], info["foe_score"]) == (expected_infos["score"][i], expected_infos["foe_score"][i])
    assert len(env.env_method("action_masks", indices=[0])) == len(env.get_attr("render_mode", indices=0)) == 1
    assert env.env_method("action_masks")[0].shape == ((12,) if agent == "team" else (4,))
    assert env.env_is_wrapped(sb3.common.monitor.Monitor) == [False] * env.num_envs
    with pytest.raises(AttributeError, match="no method 'fly'"):
        env.env_method("fly")
    with pytest.raises(UserError, match="leave indices out"):
        env.set_attr("render_mode", None, indices=[0])
    env.close()


@pytest.mark.parametrize("agent", ["snake", "team"])
def test_ppo_of_sb3_and_masked_ppo_train(sb3, agent) -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    monitored = sb3.common.vec_env.VecMonitor(team_env("level0", MATCHES, agent, api="sb3"))
    options = {"n_steps": 202, "batch_size": 404, "n_epochs": 1, "seed": SEED, "device": "cpu"}
    for algorithm in (sb3.PPO, contrib.MaskablePPO):
        model = algorithm("MlpPolicy", monitored, **options)
        model.learn(202 * monitored.num_envs)
        assert [episode["l"] for episode in model.ep_info_buffer] == [200] * monitored.num_envs
    masks = np.stack(monitored.env_method("action_masks"))
    chosen, _ = model.predict(monitored.reset(), action_masks=masks)
    assert chosen.shape == monitored.unwrapped.batch.shape

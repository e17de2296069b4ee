"""TeamVectorEnv: matches, rewards, masks and restarts as Gymnasium and the rules say."""

import re

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from arena.errors import ArenaError
from arena.rules import DIRECTION, SNAKES, TEAM, TURN
from marl import team_env
from marl.envs.team_vector_env import TeamVectorEnv
from marl.errors import UserError
from marl.rewards import PRESETS, RewardWeights, reward_of

pytestmark = pytest.mark.usefixtures("one_thread")
SEED = 11
MATCHES = 4


def masked_actions(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    """Actions that are no reversals, drawn."""
    return (rng.random(mask.shape) * mask).argmax(-1)


@pytest.mark.parametrize("agent", ["snake", "team"])
def test_a_match_from_start_to_end(agent) -> None:
    env = team_env("level1", MATCHES, agent, reward="score", seed=SEED)
    count = MATCHES if agent == "team" else MATCHES * TEAM
    assert env.num_envs == count
    obs, infos = env.reset()
    assert obs in env.observation_space
    rng, total, first = np.random.default_rng(SEED), np.zeros(count), obs.copy()
    for turn in range(1, 201):
        before = obs
        kept = before.copy()
        actions = masked_actions(rng, infos["action_mask"])
        assert actions in env.action_space
        obs, rewards, terminated, truncated, infos = env.step(actions)
        total += rewards
        assert (before == kept).all(), "arrays that were handed out stay as they are"
        assert not truncated.any()
        assert terminated.all() == terminated.any() == (turn == 200)
    assert infos["_final_obs"].all()
    assert (infos["final_obs"] != obs).any()
    by_team = total if agent == "team" else total.reshape(MATCHES, TEAM).sum(1).repeat(TEAM)
    assert (by_team == infos["score"]).all(), "rewards of the preset score add up to the score"
    assert (env.batch.arena.state[:, TURN] == 0).all(), "the next matches have started"
    assert (obs != first).any()
    assert (env.batch.arena.numbers == torch.arange(MATCHES, 2 * MATCHES)).all()


def test_snakes_and_teams_play_the_same_matches() -> None:
    snakes, teams = (team_env("level1", MATCHES, agent, seed=SEED) for agent in ("snake", "team"))
    obs_s, infos_s = snakes.reset()
    obs_t, _ = teams.reset()
    rng = np.random.default_rng(SEED)
    for _ in range(30):
        assert (obs_s.reshape(obs_t.shape) == obs_t).all()
        actions = masked_actions(rng, infos_s["action_mask"])
        obs_s, rewards_s, _, _, infos_s = snakes.step(actions)
        obs_t, rewards_t, _, _, _ = teams.step(torch.from_numpy(actions.reshape(MATCHES, TEAM)))
        assert np.allclose(rewards_s.reshape(MATCHES, TEAM).sum(1), rewards_t)


def test_rewards_are_those_of_training() -> None:
    weights = RewardWeights(own=1.0, mates=0.3, foes=0.2, eat=0.5, die=0.25, lead=0.125)
    env = team_env("level1", MATCHES, reward=weights, seed=SEED)
    _, infos = env.reset()
    rng = np.random.default_rng(SEED)
    for _ in range(60):
        _, rewards, _, _, infos = env.step(masked_actions(rng, infos["action_mask"]))
    events = env.batch.arena.events
    for i, seat in enumerate(env.batch.seats.tolist()):
        b, snake = divmod(seat, SNAKES)
        rows = [tensor[b].numpy() for tensor in (env.batch.arena.state, events.ate, events.died, events.reward)]
        assert rewards[i] == pytest.approx(reward_of(*rows, False, snake, np.array(weights, np.float32)))


def test_up_is_straight_ahead_for_the_canonical_encoder() -> None:
    env = team_env("level0", MATCHES, encoder="canonical", seed=SEED)
    _, infos = env.reset()
    seats = env.batch.seats.long()
    matches, snakes = seats // SNAKES, seats % SNAKES
    facing = env.batch.arena.state[matches, DIRECTION + snakes].clone()
    assert infos["action_mask"].tolist() == [[True, False, True, True]] * env.num_envs
    env.step(np.zeros(env.num_envs, int))
    lives = ~env.batch.arena.events.died[matches, snakes]
    assert lives.any()
    assert (env.batch.arena.state[matches, DIRECTION + snakes] == facing)[lives].all()


def test_seeds_and_sides() -> None:
    env = team_env("level0", MATCHES, seed=SEED)
    first, _ = env.reset()
    following, _ = env.reset()
    again, _ = env.reset(seed=SEED)
    assert (first == again).all()
    assert (first != following).any()
    assert [seat % SNAKES // TEAM for seat in env.batch.seats[::TEAM].tolist()] == [0, 0, 1, 1]
    assert not {*env.batch.seats.tolist()} & {*env.batch.foe_seats.tolist()}
    assert len({*env.batch.seats.tolist(), *env.batch.foe_seats.tolist()}) == MATCHES * SNAKES


def test_gymnasiums_statistics() -> None:
    env = RecordEpisodeStatistics(team_env("level0", 2, seed=SEED))
    _, infos = env.reset()
    rng = np.random.default_rng(SEED)
    for _ in range(200):
        _, _, _, _, infos = env.step(masked_actions(rng, infos["action_mask"]))
    assert (infos["episode"]["l"] == 200).all()
    env.close()


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"opponent": "level9"}, "unknown player 'level9'"),
        ({"reward": "gold"}, f"reward is 'gold'; allowed: {', '.join(PRESETS)}"),
        ({"reward": (1.0,)}, "reward is (1.0,); allowed: "),
        ({"reward": np.ones(8)}, "allowed: score, team"),
        ({"reward": RewardWeights(own=float("inf"))}, "its weights must be finite numbers"),
        ({"agent": "herd"}, "agent is 'herd'; allowed: snake, team"),
        ({"encoder": "pixels"}, "pixels"),
        ({"matches": 0}, "matches"),
    ],
)
def test_mistakes_of_the_call(options, part) -> None:
    with pytest.raises((UserError, ArenaError), match=re.escape(part)):
        team_env(**options)


def test_mistakes_of_a_step() -> None:
    env = team_env("level0", 2)
    with pytest.raises(ArenaError, match="reset"):
        env.step(np.zeros(6, int))
    env.reset()
    for actions, part in (
        (np.zeros(5, int), "need whole numbers"),
        (np.full(6, 4), "from 4 to 4"),
        (np.zeros(6), "float"),
    ):
        with pytest.raises(ArenaError, match=part):
            env.step(actions)
    with pytest.raises(UserError, match="list of seeds"):
        env.reset(seed=[1, 2])


def test_it_is_a_gymnasium_vector_env() -> None:
    env = team_env("level0", 2)
    assert isinstance(env, TeamVectorEnv)
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.SAME_STEP


def test_the_function_keeps_its_name_after_the_module_is_loaded() -> None:
    import marl

    for name in ("load", "play", "team_env", "train"):
        assert callable(getattr(marl, name))
        assert name not in vars(marl), "a submodule of this name would hide the function"

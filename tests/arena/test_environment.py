"""The PettingZoo environments: they pass PettingZoo's tests and play the same game as BatchArena."""

import copy
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from pettingzoo.test import (
    api_test,
    max_cycles_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
    state_test,
)

from arena import environment as module
from arena.batch import BatchArena
from arena.errors import ArenaError
from arena.render.frame import frame
from arena.rules import TURNS

AGENTS = list(module.AGENTS)
OBSERVATIONS = ("features", "planes")


@pytest.fixture(params=OBSERVATIONS)
def observation(request):
    return request.param


@pytest.fixture
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def random_moves(seed):
    """Endless rows of six moves."""
    generator = np.random.default_rng(seed)
    while True:
        yield generator.integers(0, 4, 6)


def by_agent(row):
    return {agent: int(move) for agent, move in zip(AGENTS, row, strict=True)}


def play(parallel, moves, turns):
    """The results of some turns of a match that has been started."""
    return [parallel.step(by_agent(next(moves))) for _ in range(turns)]


# What does not depend on the observation is tried with one.
FEATURES = pytest.mark.parametrize("observation", ["features"], indirect=True)


@pytest.mark.usefixtures("no_warnings")
class TestPettingZooAccepts:
    def test_the_parallel_environment(self, observation):
        parallel_api_test(module.parallel_env(observation=observation), num_cycles=250)

    @FEATURES
    def test_the_environment_of_one_agent_after_the_other(self, observation):
        api_test(module.env(observation=observation), num_cycles=250)

    @FEATURES
    def test_seeds_of_the_parallel_environment(self, observation):
        parallel_seed_test(partial(module.parallel_env, observation=observation), num_cycles=100)

    @FEATURES
    def test_seeds_one_agent_after_the_other(self, observation):
        seed_test(partial(module.env, observation=observation), num_cycles=50)

    @FEATURES
    def test_rendering(self, observation, monkeypatch):
        monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # an invisible window
        render_test(partial(module.env, observation=observation))

    def test_max_cycles(self):
        max_cycles_test(module)

    @FEATURES
    def test_the_global_state(self, observation):
        state_test(module.env(observation=observation), module.parallel_env(observation=observation), num_cycles=210)


def test_agents_and_spaces_are_as_announced(observation):
    parallel = module.parallel_env(observation=observation)
    shape, dtype = {"features": ((80,), np.int8), "planes": ((1208,), np.uint8)}[observation]
    assert parallel.possible_agents == ["red_0", "red_1", "red_2", "blue_0", "blue_1", "blue_2"]
    for agent in AGENTS:
        assert parallel.action_space(agent).n == 4
        assert parallel.observation_space(agent).shape == shape
        assert parallel.observation_space(agent).dtype == dtype
    assert parallel.metadata["name"] == "snakes_3v3_v0"


def test_observations_and_state_stay_in_their_spaces_for_a_whole_match(observation):
    seed = 11
    parallel = module.parallel_env(seed=seed, observation=observation)
    seen, _ = parallel.reset()
    moves = random_moves(seed)
    turn = 0
    while parallel.agents:
        for agent in AGENTS:
            assert parallel.observation_space(agent).contains(seen[agent]), f"seed {seed}, turn {turn}, {agent}"
        assert parallel.state_space.contains(parallel.state()), f"seed {seed}, turn {turn}"
        seen = parallel.step(by_agent(next(moves)))[0]
        turn += 1
    assert turn == TURNS


@pytest.mark.parametrize("seed", [0, 7, 2**62 + 5])
def test_match_k_of_a_seed_is_match_k_of_the_batch(seed, observation):
    parallel = module.parallel_env(seed=seed, observation=observation)
    batch = BatchArena(1, seed=seed)
    moves = random_moves(seed % 1000)
    for k in range(3):
        seen, _ = parallel.reset()
        batch.start()
        for turn in range(TURNS):
            where = f"seed {seed}, match {k}, turn {turn}"
            assert parallel.get_match() == batch.get_match(0), where
            assert np.array_equal([seen[a] for a in AGENTS], batch.observe(observation)[0].numpy()), where
            row = next(moves)
            seen, rewards, terminations, _, infos = parallel.step(by_agent(row))
            events = batch.play_turn(torch.from_numpy(row)[None])
            assert list(rewards.values()) == events.reward[0].tolist(), where
            assert [infos[a]["ate"] for a in AGENTS] == events.ate[0].tolist(), where
            assert [infos[a]["died"] for a in AGENTS] == events.died[0].tolist(), where
            assert set(terminations.values()) == {events.over.item()}, where


def test_a_seed_in_reset_begins_its_matches_anew_and_no_seed_goes_on_to_the_next():
    parallel = module.parallel_env(seed=1)

    def started(**seed):
        parallel.reset(**seed)
        return parallel.get_match()

    first, second, of_another_seed = started(), started(), started(seed=2)
    assert first != second
    assert first != of_another_seed
    assert started(seed=1) == first
    assert started() == second


def test_without_a_seed_two_environments_play_different_matches():
    one, other = module.parallel_env(), module.parallel_env()
    one.reset()
    other.reset()
    assert one.seed != other.seed
    assert one.get_match() != other.get_match()


def test_one_agent_after_the_other_plays_the_same_match_as_all_at_once():
    seed = 3
    parallel, turns = module.parallel_env(seed=seed), module.env(seed=seed)
    parallel.reset()
    turns.reset()
    moves = random_moves(seed)
    for turn in range(TURNS):
        actions = by_agent(next(moves))
        seen, rewards, _, _, infos = parallel.step(actions)
        for agent in AGENTS:
            assert turns.agent_selection == agent
            turns.step(actions[agent])
        for agent in AGENTS:
            assert np.array_equal(turns.observe(agent), seen[agent]), f"seed {seed}, turn {turn}, {agent}"
        assert turns.rewards == rewards, f"seed {seed}, turn {turn}"
        assert turns.infos == infos, f"seed {seed}, turn {turn}"
    assert all(turns.terminations.values())


def test_a_death_is_an_event_and_not_a_termination():
    seed = 4
    parallel = module.parallel_env(seed=seed)
    parallel.reset()
    deaths = 0
    for turn, (_, rewards, terminations, truncations, infos) in enumerate(
        play(parallel, random_moves(seed), TURNS - 1)
    ):
        assert not any(terminations.values()), f"seed {seed}, turn {turn}"
        assert not any(truncations.values()), f"seed {seed}, turn {turn}"
        assert list(infos) == AGENTS
        for agent in AGENTS:
            if infos[agent]["died"]:
                deaths += 1
                assert infos[agent]["length"] == 3, f"seed {seed}, turn {turn}, {agent}"
                assert rewards[agent] <= 0, f"seed {seed}, turn {turn}, {agent}"
    assert deaths > 0, f"seed {seed}"
    assert parallel.agents == AGENTS


def test_rewards_add_up_to_the_score_in_the_infos():
    seed = 5
    parallel = module.parallel_env(seed=seed)
    _, infos = parallel.reset()
    assert infos == {agent: {"ate": False, "died": False, "length": 3, "score": 0} for agent in AGENTS}
    results = play(parallel, random_moves(seed), TURNS)
    match = parallel.get_match()
    for snake, agent in enumerate(AGENTS):
        info = results[-1][4][agent]
        assert sum(result[1][agent] for result in results) == info["score"], f"seed {seed}, {agent}"
        assert info["length"] == len(match["snakes"][snake]), f"seed {seed}, {agent}"
        assert [type(info[key]) for key in ("ate", "died", "length", "score")] == [bool, bool, int, int]


def test_the_200th_turn_terminates_and_does_not_truncate():
    parallel = module.parallel_env(seed=6)
    parallel.reset()
    *_, before, last = play(parallel, random_moves(6), TURNS)
    assert (set(before[2].values()), set(before[3].values())) == ({False}, {False})
    assert (set(last[2].values()), set(last[3].values())) == ({True}, {False})
    assert parallel.agents == []
    assert parallel.step({}) == ({}, {}, {}, {}, {})


def test_max_cycles_truncates_and_does_not_terminate():
    parallel = module.parallel_env(seed=6, max_cycles=9)
    parallel.reset()
    *_, before, last = play(parallel, random_moves(6), 9)
    assert (set(before[2].values()), set(before[3].values())) == ({False}, {False})
    assert (set(last[2].values()), set(last[3].values())) == ({False}, {True})
    assert parallel.agents == []
    parallel.reset()
    assert parallel.agents == AGENTS


def test_observations_that_were_handed_out_never_change(observation):
    seed = 8
    parallel = module.parallel_env(seed=seed, observation=observation)
    seen, infos = parallel.reset()
    kept, kept_infos = copy.deepcopy(seen), copy.deepcopy(infos)
    play(parallel, random_moves(seed), 20)
    assert infos == kept_infos
    for agent in AGENTS:
        assert np.array_equal(seen[agent], kept[agent]), f"seed {seed}, {agent}"


def test_writing_into_what_was_handed_out_does_not_touch_the_match():
    seed = 9
    one, other = module.parallel_env(seed=seed), module.parallel_env(seed=seed)
    one.reset()
    other.reset()
    moves, same_moves = random_moves(seed), random_moves(seed)
    for _ in range(30):
        for result in one.step(by_agent(next(moves))):
            for agent in AGENTS:
                if isinstance(result[agent], np.ndarray):
                    result[agent][:] = 1
                elif isinstance(result[agent], dict):
                    result[agent].clear()
            result.clear()
        one.state()[:] = 0
        other.step(by_agent(next(same_moves)))
    assert one.get_match() == other.get_match(), f"seed {seed}"
    result, expected = one.step(by_agent(next(moves))), other.step(by_agent(next(same_moves)))
    assert result[1:] == expected[1:], f"seed {seed}"


def test_a_deep_copy_plays_on_by_itself():
    seed = 10
    parallel = module.parallel_env(seed=seed)
    parallel.reset()
    play(parallel, random_moves(1), 10)
    twin = copy.deepcopy(parallel)
    before = parallel.get_match()
    play(twin, random_moves(2), 10)
    assert parallel.get_match() == before, f"seed {seed}"
    play(parallel, random_moves(2), 10)
    assert parallel.get_match() == twin.get_match(), f"seed {seed}"


BAD_ACTIONS = {
    "a missing agent": (dict.fromkeys(AGENTS[:-1], 0), "blue_2 is missing"),
    "an unknown agent": (dict.fromkeys([*AGENTS, "green_0"], 0), "green_0"),
    "a move above 3": (dict.fromkeys(AGENTS, 0) | {"red_1": 4}, "red_1 is 4"),
    "a negative move": (dict.fromkeys(AGENTS, 0) | {"red_1": -1}, "red_1 is -1"),
    "a move beyond a byte": (dict.fromkeys(AGENTS, 0) | {"blue_0": 256}, "blue_0 is 256"),
    "a fraction": (dict.fromkeys(AGENTS, 0) | {"blue_1": 1.0}, "blue_1 is 1.0"),
    "no move": (dict.fromkeys(AGENTS, 0) | {"red_0": None}, "red_0 is None"),
    "an array of several lines": (dict.fromkeys(AGENTS, 0) | {"red_0": np.zeros((3, 3))}, "red_0 is array"),
    "a list": ([0] * 6, "list"),
}


@pytest.mark.parametrize("name", BAD_ACTIONS)
def test_bad_actions_are_told_in_one_line_and_change_nothing(name):
    actions, message = BAD_ACTIONS[name]
    parallel = module.parallel_env(seed=1)
    parallel.reset()
    before, agents = parallel.get_match(), list(parallel.agents)
    with pytest.raises(ArenaError, match=message) as error:
        parallel.step(actions)
    assert "\n" not in str(error.value)
    assert parallel.get_match() == before
    assert parallel.agents == agents


def test_a_bad_action_of_one_agent_after_the_other_is_refused_at_once_and_can_be_corrected():
    turns = module.env(seed=1)
    turns.reset()
    turns.step(0)
    with pytest.raises(ArenaError, match="red_1 is 7"):
        turns.step(7)
    assert turns.agent_selection == "red_1"
    turns.step(1)
    assert turns.agent_selection == "red_2"


@pytest.mark.parametrize("kind", [int, np.int64, np.int8, np.uint8, np.array, torch.tensor])
def test_moves_may_be_whole_numbers_of_any_kind(kind):
    parallel, plain = module.parallel_env(seed=2), module.parallel_env(seed=2)
    parallel.reset()
    plain.reset()
    row = next(random_moves(2))
    parallel.step({agent: kind(move) for agent, move in by_agent(row).items()})
    plain.step(by_agent(row))
    assert parallel.get_match() == plain.get_match()


ALLOWED = "; allowed: features, planes$"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"render_mode": "hologram"}, "hologram"),
        ({"observation": "smell"}, "observation 'smell' is unknown" + ALLOWED),
        ({"observation": "turned"}, "'turned' counts actions in the snake's own orientation" + ALLOWED),
        ({"observation": None}, "observation None is unknown" + ALLOWED),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"max_cycles": 0}, "max_cycles is 0"),
    ],
)
def test_bad_options_are_told_in_one_line(options, message):
    with pytest.raises(ArenaError, match=message) as error:
        module.parallel_env(**options)
    assert "\n" not in str(error.value)


def test_a_bad_seed_in_reset_changes_nothing():
    parallel = module.parallel_env(seed=1)
    parallel.reset()
    before = parallel.get_match()
    with pytest.raises(ArenaError, match="seed is -3"):
        parallel.reset(seed=-3)
    assert parallel.get_match() == before
    assert parallel.seed == 1


def test_without_a_display_the_window_is_refused_in_one_line(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    for make in (module.parallel_env, module.env):
        with pytest.raises(ArenaError, match=r"no display.*--gif.*--html") as error:
            make(render_mode="human").reset()
        assert "\n" not in str(error.value)


def test_a_window_shows_every_turn_as_the_frame_renderer_draws_it(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    import pygame

    parallel = module.parallel_env(render_mode="human", seed=3)
    monkeypatch.setitem(parallel.metadata, "render_fps", 1000)
    parallel.reset()
    for _ in range(3):
        parallel.step(dict.fromkeys(parallel.agents, 0))
        seen = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
        assert np.array_equal(seen, frame(parallel.get_match()))
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    parallel.step(dict.fromkeys(parallel.agents, 0))
    parallel.step(dict.fromkeys(parallel.agents, 0))  # the match goes on without it
    assert not pygame.display.get_init()
    parallel.close()


@pytest.mark.parametrize("call", ["state", "get_match"])
def test_nothing_can_be_seen_before_reset(call):
    with pytest.raises(ArenaError, match="reset"):
        getattr(module.parallel_env(), call)()


def test_a_turn_cannot_be_played_before_reset():
    with pytest.raises(ArenaError, match="reset"):
        module.parallel_env().step(dict.fromkeys(AGENTS, 0))


def test_the_state_shows_the_whole_match():
    seed = 12
    parallel = module.parallel_env(seed=seed)
    parallel.reset()
    moves = random_moves(seed)
    for turn in range(60):
        parallel.step(by_agent(next(moves)))
        match, state = parallel.get_match(), parallel.state()
        board = np.zeros((10, 20), int)
        wait = np.zeros((10, 20), int)
        for row, column in match["beans"]:
            board[row, column] = 7
        for snake, body in enumerate(match["snakes"]):
            for age, (row, column) in enumerate(body):
                board[row, column] = snake + 1
                wait[row, column] = len(body) - age
        expected = [*board.flat, *wait.flat, *match["directions"], *map(len, match["snakes"]), match["turn"]]
        assert state.tolist() == expected, f"seed {seed}, turn {turn}"


def test_render_shows_the_present_match():
    parallel = module.parallel_env(seed=1, render_mode="ansi")
    parallel.reset()
    assert parallel.render().startswith("turn 0/200")
    play(parallel, random_moves(1), 3)
    assert parallel.render().startswith("turn 3/200")

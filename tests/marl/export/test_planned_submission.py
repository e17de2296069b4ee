"""The submission that plans: rules, encoders and plans are those of the arena; it keeps its time and never raises."""

import ctypes
import importlib.util
import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from helpers.command import assert_one_line
from helpers.exporting import ENCODERS, LEAD, arena_of, games, player, recorded_states, saved_run, with_few_beans
from helpers.play_submissions import Unhurried
from helpers.submissions import UNCAGED_FLAG
from helpers.training import here

from arena import BatchArena
from arena.match_dict import to_dict
from arena.rules import (
    BEAN_COUNT,
    BEANS,
    BOARD,
    CELLS,
    DIRECTION,
    ENTERED,
    HEAD,
    LENGTH,
    MATCH_BYTES,
    OVER,
    SNAKES,
    TAIL,
    TEAM,
    TURN,
    drop_beans,
)
from marl.export.dense_layers import policy_layers
from marl.export.submission_file import TEMPLATE, submission_source
from marl.networks.policy import describe_actor
from marl.planning.foe_models import LEVEL4, RANDOM, TERRITORY
from marl.planning.planner import PLAN_SEED, Budget, Planner
from marl.planning.value_scale import value_scale
from marl.storage import snapshot
from opponents.players import find

pytestmark = pytest.mark.usefixtures("one_thread")
SEED = 5


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("planned_submission", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def planned(folder: Path, encoder: str, milliseconds: float = 50, value: bool = True) -> ModuleType:
    """The module of a planned submission of an untrained policy."""
    who = player(encoder, value=value)
    path = folder / f"{encoder}.py"
    path.write_text(submission_source(policy_layers(who), who.encoder, "it", milliseconds, value_scale(who.reward)))
    return loaded(path)


# What is done by the same lines for all encoders is tried with two: on the board, and turned.
TWO_ENCODERS = pytest.mark.parametrize("submission", ["canonical", "tactical_board"], indirect=True)


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Callable[[str], ModuleType]:
    """The planned submission of an encoder, made once."""
    folder = tmp_path_factory.mktemp("planned")
    return cache(lambda encoder: planned(folder, encoder, milliseconds=20))


@pytest.fixture(params=ENCODERS)
def submission(request, plan) -> tuple[str, ModuleType]:
    return request.param, plan(request.param)


@pytest.fixture(scope="module")
def module(tmp_path_factory) -> ModuleType:
    return planned(tmp_path_factory.mktemp("planned"), "canonical")


def cells(places: list) -> list[int]:
    return [row * 20 + column for row, column in places]


def match_of(module: ModuleType, state: torch.Tensor):
    """A state of the arena as the submission's Match."""
    match = to_dict(state.numpy())
    bodies = [cells(body) for body in match["snakes"]]
    return module.Match(int(state[TURN]), bodies, list(match["directions"]), cells(match["beans"]))


def simulation_of(module: ModuleType, arena: BatchArena):
    matches = [match_of(module, state) for state in arena.state]
    return module.Simulation(matches, arena.keys.numpy().astype(np.uint64))


def assert_same(sims, arena: BatchArena) -> None:
    """Every byte of the arena's state that means something."""
    state = arena.state.numpy().astype(int)
    assert state.shape[1] == MATCH_BYTES
    assert np.array_equal(sims.board, state[:, BOARD : BOARD + CELLS])
    for part, at in (("head", HEAD), ("tail", TAIL), ("length", LENGTH), ("direction", DIRECTION)):
        alive = state[:, LENGTH : LENGTH + SNAKES] > 0
        assert np.array_equal(getattr(sims, part)[alive], state[:, at : at + SNAKES][alive]), part
    count = state[:, BEAN_COUNT, None]
    beans = np.where(np.arange(5) < count, state[:, BEANS : BEANS + 5], -1)
    assert np.array_equal(sims.beans, beans)
    on_board = (sims.board > 0) & (sims.board < 7)
    assert np.array_equal(sims.entered[on_board] & 255, state[:, ENTERED : ENTERED + CELLS][on_board])
    assert np.array_equal(sims.turn, state[:, TURN])
    assert np.array_equal(sims.over, state[:, OVER] > 0)


def play_both(sims, arena: BatchArena, moves: torch.Tensor) -> tuple[int, int]:
    """One turn in both; returns how many snakes ate and died."""
    growth = sims.play_turn(moves.numpy().astype(np.intp))
    events = arena.play_turn(moves)
    assert np.array_equal(growth, events.reward.numpy())
    assert np.array_equal(sims.ate, events.ate.numpy())
    assert np.array_equal(sims.died, events.died.numpy())
    assert_same(sims, arena)
    return int(sims.ate.sum()), int(sims.died.sum())


@pytest.mark.parametrize("kind", ["random", "level1", "territory"])
def test_rules_are_the_arenas_turn_by_turn(module, kind) -> None:
    """Whole matches, with the same draws; two turns more, because a match that is over stays as it is."""
    matches = 12 if kind == "random" else 6
    arena = BatchArena(matches, seed=SEED)
    arena.start()
    seats = torch.arange(matches * SNAKES, dtype=torch.int32)
    who = None if kind == "random" else find(kind)
    if who:
        who.begin(arena, seats)
    sims = simulation_of(module, arena)
    generator = torch.Generator().manual_seed(SEED)
    ate = died = 0
    for _ in range(202):
        moves = torch.randint(4, (matches, SNAKES), generator=generator).to(torch.int8)
        if who:
            who.act(arena, seats, moves)
        events = play_both(sims, arena, moves)
        ate, died = ate + events[0], died + events[1]
    assert sims.over.all()
    assert ate > 100
    assert died > 20


@pytest.fixture(scope="module")
def ordinary_states(module) -> torch.Tensor:
    """Recorded positions that occur in play: not over, and no two segments on one cell."""
    states = recorded_states()[::6]
    states = states[(states[:, LENGTH : LENGTH + SNAKES] > 0).all(1) & (states[:, OVER] == 0)]
    boards = torch.from_numpy(simulation_of(module, arena_of(states)).board)
    ordinary = (boards == states[:, BOARD : BOARD + CELLS]).all(1)
    assert ordinary.sum() > 1000
    return states[ordinary]


def test_rules_are_the_arenas_in_recorded_positions(module, ordinary_states) -> None:
    """Positions of the original game, among them full boards and snakes without room; three turns of each."""
    arena = arena_of(ordinary_states, SEED)
    sims = simulation_of(module, arena)
    generator = torch.Generator().manual_seed(SEED)
    for _ in range(3):
        play_both(sims, arena, torch.randint(4, (arena.matches, SNAKES), generator=generator).to(torch.int8))
    assert sims.over.any()


def test_beans_of_a_crowded_board_are_the_arenas(module) -> None:
    """Seven free cells: for some beans all drawn cells are taken, and the free ones are counted."""
    print(f"seed {SEED}")
    arena = BatchArena(64, seed=SEED)
    arena.start()
    sims, states = simulation_of(module, arena), arena.state.numpy()
    board = np.full((64, CELLS), 1, np.uint8)
    board[np.arange(64)[:, None], (3 * np.arange(64)[:, None] + 20 * np.arange(7)) % CELLS] = 0
    states[:, BOARD : BOARD + CELLS], states[:, BEAN_COUNT] = board, 0
    sims.board[:], sims.beans[:] = board, -1
    for state, key in zip(states, arena.keys.tolist(), strict=True):
        drop_beans(state, key, int(state[TURN]))
    sims.drop_beans()
    assert np.array_equal(sims.beans, states[:, BEANS : BEANS + 5])
    assert np.array_equal(sims.board, states[:, BOARD : BOARD + CELLS])


def test_batched_encoders_are_the_arenas_and_the_single_ones(submission, ordinary_states) -> None:
    encoder, module = submission
    checked = 0
    for states in ordinary_states[::2].split(200):
        arena = arena_of(states)
        obs, orientations = module.BATCHED[encoder](simulation_of(module, arena))
        assert np.array_equal(obs, arena.observe(encoder).numpy().reshape(obs.shape))
        for seen in (np.array([4]), np.arange(TEAM), np.arange(TEAM, SNAKES)):
            some, turned = module.BATCHED[encoder](simulation_of(module, arena), seen)
            assert np.array_equal(some, obs.reshape(-1, SNAKES, obs.shape[1])[:, seen].reshape(some.shape))
            assert np.array_equal(turned, orientations[:, seen])
        for i in range(0, arena.matches, 16):
            match = match_of(module, arena.state[i])
            for snake in range(SNAKES):
                single, orientation = module.ENCODE(match, snake)
                assert np.array_equal(obs[i * SNAKES + snake], single)
                assert orientations[i, snake] == orientation
                checked += 1
    assert checked > 200
    for position, expected in with_few_beans(encoder):
        arena = BatchArena(1)
        arena.set_match(0, position.match)
        assert np.array_equal(module.BATCHED[encoder](simulation_of(module, arena))[0], expected)


@pytest.mark.parametrize("side", [0, 1])
def test_plans_are_those_of_the_arenas_planner(submission, side) -> None:
    encoder, module = submission
    assert_plans_of_the_arena(module, encoder, side, value=True)


@pytest.mark.parametrize("side", [0, 1])
def test_plans_without_a_value_head_are_those_of_the_arenas_planner(tmp_path, side) -> None:
    assert_plans_of_the_arena(planned(tmp_path, "canonical", value=False), "canonical", side, value=False)


def assert_plans_of_the_arena(module: ModuleType, encoder: str, side: int, value: bool) -> None:
    """A fixed number of replies, recorded positions up to the last turns of matches."""
    states = recorded_states()[torch.tensor([*range(5, 400, 66), 197, 198, 199])]
    arena = arena_of(states, SEED)
    who = player(encoder, value=value)
    scale = value_scale(who.reward)
    actions, values = Planner(who.actor, who.encoder, arena, seats_of(arena, side), Budget(5), scale=scale).plan()
    counts = set()
    for b in range(arena.matches):
        number, match = int(arena.numbers[b]), match_of(module, arena.state[b])
        moves, found, replies = module.plan(match, side, module.FoeModels(side), Unhurried(5), number, plan_seed(SEED))
        counts.add(replies)
        legal = np.isfinite(values[b].numpy())
        np.testing.assert_allclose(found[legal], values[b].numpy()[legal], rtol=1e-4, atol=1e-3)
        assert moves == actions[b].tolist()
    assert (5, 5, 2) in counts
    assert min(counts) < (5, 5, 2), "fewer where few foes are near"


@pytest.mark.parametrize("foes", ["territory", "level4", "level0"])
def test_models_of_the_foes_are_those_of_the_arenas_planner(module, foes) -> None:
    """Turn by turn of a match, with snakes that die; the model that fits gets most of the weight."""
    arena = BatchArena(1, seed=SEED)
    arena.start()
    who, rivals = player("canonical", value=True), find(foes)
    seats, scale = seats_of(arena, 0), value_scale(who.reward)
    planner = Planner(who.actor, who.encoder, arena, seats, Budget(3), scale=scale)
    models = module.FoeModels(0)
    moves = torch.zeros(1, SNAKES, dtype=torch.int8)
    for turn in range(40):
        actions, values = planner.plan()
        match = match_of(module, arena.state[0])
        found = module.plan(match, 0, models, Unhurried(3), int(arena.numbers[0]), plan_seed(SEED))
        legal = np.isfinite(values[0].numpy())
        np.testing.assert_allclose(found[1][legal], values[0].numpy()[legal], rtol=1e-4, atol=1e-3)
        assert found[0] == actions[0].tolist(), f"turn {turn}, seed {SEED}"
        np.testing.assert_allclose(models.log_weights, planner._models._log_weights[0].numpy(), rtol=1e-4, atol=1e-4)
        rivals.act(arena, seats_of(arena, 1), moves)
        moves[0, :TEAM] = actions[0]
        arena.play_turn(moves)
    likeliest = planner._models.weights()[0].argmax(-1).tolist()
    assert likeliest == [{"territory": TERRITORY, "level4": LEVEL4, "level0": RANDOM}[foes]] * TEAM


@pytest.mark.parametrize("team", [0, 1])
def test_a_new_match_begins_with_the_first_weights_of_the_same_foes(module, team) -> None:
    models = module.FoeModels(team)
    foes, at_first = models.foes, models.log_weights.copy()
    assert list(foes) == [TEAM - team * TEAM + place for place in range(TEAM)]
    for turn, position in enumerate(games()[0][:8]):
        match = module.Match(turn, *read(module, position))
        models.see(match)
        models.predict(match, np.full((TEAM, 4), 0.25))
    assert not np.allclose(models.log_weights, at_first)
    models.see(module.Match(0, *read(module, games()[1][0])))
    assert np.array_equal(models.log_weights, at_first)
    assert models.foes == foes


def seats_of(arena: BatchArena, side: int) -> torch.Tensor:
    return (torch.arange(arena.matches)[:, None] * SNAKES + side * TEAM + torch.arange(TEAM)).flatten().int()


def plan_seed(seed: int) -> int:
    return (PLAN_SEED << 31) ^ (seed & 0x7FFFFFFF)


def policy_moves(module: ModuleType, position, side: int) -> list[int]:
    match = module.Match(0, *(read(module, position)))
    return [module.choose_by_policy(match, side * TEAM + i) for i in range(TEAM)]


def read(module: ModuleType, position) -> tuple[list[list[int]], list[int], list[int]]:
    bodies = [cells(body) for body in position.match["snakes"]]
    return bodies, [module.around_torus(body) for body in bodies], cells(position.match["beans"])


def ask(module: ModuleType, position, snake: int) -> int:
    answer = module.my_controller(position.observation(snake), None, False)
    assert sorted(answer[0]) == [0, 0, 0, 1]
    return answer[0].index(1)


@TWO_ENCODERS
def test_without_time_it_plays_the_policys_moves(submission, monkeypatch) -> None:
    _, module = submission
    monkeypatch.setattr(module, "PLAN_MS", 1)  # all of it is margin
    for game in games()[:8]:
        module._match = None
        assert [ask(module, game[0], snake) for snake in range(3)] == policy_moves(module, game[0], 0)
        assert module._match.plans == {0: None}


@TWO_ENCODERS
@pytest.mark.parametrize("broken", ["play_replies", "forward", "Simulation", "FoeModels", "plan", "Clock"])
def test_an_error_in_planning_leaves_the_policys_moves_and_is_told_once(
    submission, monkeypatch, capsys, broken
) -> None:
    _, module = submission

    def fail(*_, **__) -> None:
        raise RuntimeError(f"{broken} in\ntwo lines")

    # However busy the machine is, there is time for the part that fails.
    monkeypatch.setattr(module, "PLAN_MS", 100_000)
    monkeypatch.setattr(module.Clock, "copy_seconds", 1e-3)
    monkeypatch.setattr(module.Clock, "slowness", 1.0)
    monkeypatch.setattr(module.Clock, "root_seconds", 0.0)
    monkeypatch.setattr(module, "_foe_models", {})
    monkeypatch.setattr(module, broken, fail)
    monkeypatch.setattr(module, "_told", set())
    for game in games()[:4]:
        module._match = None
        assert [ask(module, game[0], snake) for snake in range(3, 6)] == policy_moves(module, game[0], 1)
    told = f"submission: planning fails; the policy plays alone: RuntimeError: {broken} in two lines\n"
    assert capsys.readouterr() == ("", told)


def test_planning_that_fails_while_the_file_is_loaded_is_told(module, monkeypatch, capsys) -> None:
    monkeypatch.setattr(module, "_told", set())
    monkeypatch.setattr(module, "PARTS", ("no such part",))
    module.warm_up()
    assert capsys.readouterr().err.startswith("submission: planning fails; the policy plays alone: AttributeError: ")
    module._match = None
    assert ask(module, games()[0][0], 0) in range(4)
    assert capsys.readouterr() == ("", "")


def test_products_run_in_one_thread_once_the_file_is_loaded(module) -> None:
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    paths = {line.split(None, 5)[-1].strip() for line in lines if "openblas" in line}
    known = []
    for library in map(ctypes.CDLL, paths):
        for name in ("openblas_{}_num_threads", "scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_"):
            if hasattr(library, name.format("set")):
                known.append([getattr(library, name.format(what)) for what in ("get", "set")])
    if not known:
        pytest.skip("numpy has no OpenBLAS here")
    for _, set_threads in known:
        set_threads(2)
    module.warm_up()
    assert [get_threads() for get_threads, _ in known] == [1] * len(known)


def test_without_a_stream_for_errors_it_plays_on(module, monkeypatch, capsys) -> None:
    monkeypatch.setattr(module, "_told", set())
    monkeypatch.setattr(module, "PARTS", ("no such part",))
    monkeypatch.setattr("sys.stderr", None)
    module._match = None
    assert ask(module, games()[0][0], 0) == policy_moves(module, games()[0][0], 0)[0]
    assert capsys.readouterr().out == ""


def test_planning_that_goes_well_or_has_no_time_tells_nothing(module, monkeypatch, capsys) -> None:
    monkeypatch.setattr(module, "_told", set())
    for milliseconds in (1, 50):
        monkeypatch.setattr(module, "PLAN_MS", milliseconds)
        module._match = None
        ask(module, games()[0][0], 0)
    assert capsys.readouterr() == ("", "")


ODD = {
    "nothing": None,
    "empty": {},
    "own body empty": {6: []},
    "own body of one": {6: [[3, 4]]},
    "a mate's body empty": {5: []},
    "a foe's body empty": {2: []},
    "a body twice": {5: [[1, 1], [1, 2], [1, 3]], 6: [[1, 1], [1, 2], [1, 3]]},
    "no beans": {1: []},
    "ten beans": {1: [[row, 7] for row in range(10)]},
    "a full board": {2: [[cell // 20, cell % 20] for cell in range(190)]},
    "directions too few": {"last_direction": ["up"]},
}


@TWO_ENCODERS
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_odd_input_gets_a_move_and_does_no_harm(submission, odd) -> None:
    _, module = submission
    first, second = games()[0][:2]
    for position in (first, second):
        module.my_controller(first.observation(4), None, False)
        observation = {**position.observation(4), **odd} if odd else odd
        answer = module.my_controller(observation, None, False)
        assert sorted(answer[0]) == [0, 0, 0, 1]
    assert ask(module, second, 4) in range(4)


@TWO_ENCODERS
def test_the_first_call_of_a_turn_plans_for_all_three(submission, monkeypatch) -> None:
    _, module = submission
    calls = []

    def plan(match, team, models, clock):
        calls.append((match.turn, team))
        return [1, 2, 3], None, (1, 1, 1)

    monkeypatch.setattr(module, "plan", plan)
    module._match = None
    for position in games()[0][:3]:
        assert [ask(module, position, snake) for snake in (4, 3, 5)] == [2, 1, 3]
    assert calls == [(0, 1), (1, 1), (2, 1)]


def test_the_models_of_the_foes_go_on_from_turn_to_turn(module, monkeypatch) -> None:
    """Each team has its own: a file may play both sides in one process."""
    seen = {0: [], 1: []}

    def plan(match, team, models, clock):
        seen[team].append(models)
        return [1, 2, 3], None, (1, 1, 1)

    monkeypatch.setattr(module, "plan", plan)
    monkeypatch.setattr(module, "_foe_models", {})
    module._match = None
    for position in games()[0][:3]:
        for snake in (0, 3):
            ask(module, position, snake)
    for team, models in seen.items():
        assert len(models) == 3
        assert all(each is models[0] for each in models)
        assert list(models[0].foes) == [TEAM - team * TEAM + place for place in range(TEAM)]


def with_clock(module, monkeypatch, copy_seconds: float) -> list[float]:
    """The time, which the test sets; the clock has measured this much for a copy."""
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(module.Clock, "copy_seconds", copy_seconds)
    monkeypatch.setattr(module.Clock, "slowness", 1.0)
    return now


@pytest.mark.parametrize(("milliseconds", "left"), [(100, 0.015), (50, 0.0075), (4, 0.002)])
def test_a_part_of_the_time_is_left_unused(module, monkeypatch, milliseconds, left) -> None:
    deadlines = []

    class Late(module.Clock):
        def __init__(self, deadline):
            deadlines.append(deadline)
            super().__init__(-1.0)  # no time: the policy plays

    with_clock(module, monkeypatch, 0.001)[0] = 100.0
    monkeypatch.setattr(module, "PLAN_MS", milliseconds)
    monkeypatch.setattr(module, "Clock", Late)
    module._match = None
    ask(module, games()[0][0], 0)
    assert deadlines == [pytest.approx(100 + milliseconds / 1000 - left)]


def test_replies_fill_the_time(module, monkeypatch) -> None:
    """Beside a second turn against two replies; if there is no time for that, there is one reply."""
    now = with_clock(module, monkeypatch, 0.001)
    candidates = module.DEVIATIONS + len(module.COMBINATIONS)
    clock = module.Clock((3 * module.FIXED + 4.5 * candidates + 2 * module.AGAIN) * 0.001)
    assert clock.fitting(27) == 4
    assert clock.fitting(3) == 3, "no more than there are"
    now[0] = 4 * candidates * 0.001
    assert clock.fitting(27) == 1
    now[0] += 2 * module.AGAIN * 0.001
    assert clock.fitting(27) == 0


def test_turns_without_time_do_not_end_planning_for_good(module, monkeypatch) -> None:
    with_clock(module, monkeypatch, 0.5)
    assert module.Clock(-1.0).fitting(27) == 0
    assert module.Clock.copy_seconds == 0.5, "no time at all says nothing"
    found = [module.Clock(10.0).fitting(27) for _ in range(20)]
    assert found[0] == 0
    assert found[-1] > 0


def test_a_slow_stage_is_expected_again_and_soon_forgotten(module, monkeypatch) -> None:
    """On a core with other work stages take several times as long now and then."""
    with_clock(module, monkeypatch, 0.001)
    clock = module.Clock(10.0)
    clock.measure(84, 0.1)
    assert clock.fits(1000)
    clock.measure(84, 10.0)  # a hundred times as long
    assert not clock.fits(1000)
    for _ in range(8):
        clock.measure(84, 0.1)
    assert clock.fits(1000)


def test_without_time_for_the_second_stage_each_snake_plays_its_best_action(module, monkeypatch) -> None:
    monkeypatch.setattr(module.Clock, "copy_seconds", 1e-9)
    monkeypatch.setattr(module.Clock, "root_seconds", 0.0)
    monkeypatch.setattr(module.Clock, "fits", lambda self, copies: False)
    match = module.Match(0, *read(module, games()[0][0]))
    moves, values, replies = module.plan(match, 0, module.FoeModels(0), module.Clock(time.perf_counter() + 100))
    assert replies[0] > 0
    assert replies[1:] == (0, 0)
    assert np.isfinite(values).sum() == 9
    assert moves == values.argmax(1).tolist()


def test_a_plan_that_would_not_get_to_its_replies_is_not_begun(module, monkeypatch) -> None:
    now = with_clock(module, monkeypatch, 0.001)
    monkeypatch.setattr(module.Clock, "root_seconds", 0.0)
    clock = module.Clock(1.0)
    assert clock.can_begin()
    now[0] = 0.6
    clock.fitting(1)
    assert module.Clock(1.1).can_begin() is False, "0.5 s are left, and it took 0.6 s"
    assert [module.Clock(1.1).can_begin() for _ in range(2)] == [False, True], "soon forgotten"


def test_a_late_clock_ends_a_plan(module) -> None:
    match = module.Match(0, *read(module, games()[0][0]))
    assert module.plan(match, 0, module.FoeModels(0), module.Clock(time.perf_counter() - 1)) == (None, None, (0, 0, 0))


def test_calls_keep_their_time(module, monkeypatch) -> None:
    """50 turns at 30 ms. The work moves the clock on: the start of a plan by 4 ms, a stage by 0.2 ms for each copy. One
    piece of work in ten takes twice as long, as on a core with other work."""
    print(f"seed {SEED}")
    rng, now = np.random.default_rng(SEED), with_clock(module, monkeypatch, 0.0005)
    monkeypatch.setattr(module, "PLAN_MS", 30)
    monkeypatch.setattr(module.Clock, "root_seconds", 0.0)

    def takes(name: str, seconds: Callable[..., float]) -> None:
        work = getattr(module, name)

        def timed(*arguments):
            now[0] += seconds(*arguments) * (2 if rng.random() < 0.1 else rng.uniform(0.9, 1.1))
            return work(*arguments)

        monkeypatch.setattr(module, name, timed)

    takes("dead_end_losses", lambda *_: 0.004)
    takes("play_replies", lambda root, own, foes, *_: 0.0002 * (module.FIXED + len(own) * len(foes)))
    takes("play_twice", lambda root, own, foes, *_: 0.0002 * (module.FIXED + module.AGAIN * len(foes)))
    module._match = None
    spent, planned_turns = [], 0
    for position in games()[1][:50]:
        began = now[0]
        for snake in range(3):
            ask(module, position, snake)
        spent.append(now[0] - began)
        planned_turns += module._match.plans[0] is not None
    assert 0.020 < max(spent) < 0.030
    assert planned_turns > 35


def test_without_plan_nothing_is_added() -> None:
    who = player("features", value=True)
    text = submission_source(policy_layers(who), who.encoder, "it")
    template = TEMPLATE.read_text()
    assert text.startswith(template[: template.index("# --- the trained policy")])
    assert text.endswith('""",\n)\n')
    assert submission_source(policy_layers(who), who.encoder, "it", 50).count("PLAN_MS = ") == 1


@pytest.mark.parametrize(
    ("reward", "said"),
    [(LEAD, "FOES, LEAF = 1, 0.333333"), (None, "FOES, LEAF = 0.6, 0.625")],
    ids=["known", "unknown"],
)
def test_export_writes_the_scale_of_the_values(tmp_path, reward, said) -> None:
    """From a snapshot that export wrote of a snapshot: nothing is lost on the way."""
    who = player("features", value=True)
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    snapshot.write(first, who.actor.state_dict(), describe_actor(who.encoder, who.actor.spec, reward))
    assert here("export", first, "--safetensors", second).returncode == 0
    result = here("export", second, "--jidi", tmp_path / "sent", "--plan", "4")
    assert result.returncode == 0, result.stderr
    text = (tmp_path / "sent" / "submission.py").read_text()
    assert text.count(f"\n{said}  # by the reward of the training\n") == 1
    module = loaded(tmp_path / "sent" / "submission.py")
    assert pytest.approx(value_scale(reward), rel=1e-5) == (module.FOES, module.LEAF)


def test_eval_plays_it(tmp_path) -> None:
    run = saved_run(tmp_path, "canonical")
    result = here("export", run, "--jidi", tmp_path / "sent", "--plan", "4")
    assert result.returncode == 0, result.stderr
    path = tmp_path / "sent" / "submission.py"
    played = here("eval", "--home", path, "--away", "level0", "--matches", "1", "--json", *UNCAGED_FLAG)
    said = json.loads(played.stdout)
    assert said["home_forfeits"] == 0


@pytest.mark.parametrize("value", ["0", "x", "-5", "nan", "inf", "100000"])
def test_a_time_that_is_none_is_one_line(tmp_path, value) -> None:
    assert_one_line(here("export", "champion", "--jidi", tmp_path, f"--plan={value}"), value)
    assert not any(tmp_path.iterdir())


def test_a_time_without_a_submission_is_one_line(tmp_path) -> None:
    assert_one_line(here("export", "champion", "--onnx", tmp_path / "it.onnx", "--plan", "50"), "--jidi")
    assert not any(tmp_path.iterdir())

"""The exported submission.py: same observations and moves as its checkpoint, needs only numpy, never raises."""

import copy
import importlib.util
import json
import random
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.command import ROOT
from helpers.exporting import (
    ENCODERS,
    TIE,
    Position,
    games,
    legal_logits,
    margins,
    player,
    round_to_halves,
    rows,
    saved_run,
    with_few_beans,
)
from helpers.recorded import first_step

from arena.encoders import encoder_named
from arena.jidi import jidi_observation
from arena.rules import SNAKES, TURNS
from marl.export import submission_file
from marl.export.dense_layers import policy_layers
from marl.export.submission_file import submission_source
from marl.storage.saved_player import load_policy
from opponents.match import play

COMPARED, PART = 2, TURNS // 5  # games, one of each team, of 120 positions each: encoders differ in few lines
# What is done by the same lines for all encoders is tried with two: on the board, and turned.
TWO_ENCODERS = pytest.mark.parametrize("exported", ["canonical", "tactical_board"], indirect=True)


Exported = tuple[str, Path, Path]  # an encoder, a run whose policy uses it, and its submission.py


@pytest.fixture(scope="module")
def export(tmp_path_factory) -> Callable[[str], Exported]:
    """Exports a policy of an encoder, once: what the command writes, without its trial of the file."""

    @cache
    def export(encoder: str) -> Exported:
        folder = tmp_path_factory.mktemp(encoder)
        run, path = saved_run(folder, encoder), folder / "submission.py"
        who = load_policy(str(run))
        path.write_text(submission_source(policy_layers(who), who.encoder, run.name))
        return encoder, run, path

    return export


@pytest.fixture(params=ENCODERS)
def exported(request, export) -> Exported:
    return export(request.param)


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("exported_submission", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def watched(path: Path) -> tuple[ModuleType, list[np.ndarray]]:
    """The submission, and a list of the observations that its network gets."""
    module, obs = loaded(path), []
    network = module.logits

    def logits(row: np.ndarray) -> np.ndarray:
        obs.append(row)
        return network(row)

    module.logits = logits
    return module, obs


def move(answer: list[list[int]]) -> int:
    assert len(answer) == 1
    assert sorted(answer[0]) == [0, 0, 0, 1]
    assert all(type(number) is int for number in answer[0])
    return answer[0].index(1)


def ask(module: ModuleType, position: Position, snake: int, observation: Any = None) -> int:
    """The move in a recorded position; the module then believes that it has answered what was recorded."""
    answer = module.my_controller(position.observation(snake) if observation is None else observation, None, False)
    module._match.own_moves[snake] = position.taken[snake]
    return move(answer)


def in_doubt(before: Position, after: Position, snake: int) -> bool:
    """Whether a body across the board's edge may have moved there or respawned there: its direction depends on it."""
    old, new = before.match["snakes"][snake], after.match["snakes"][snake]
    (row, column), (neck_row, neck_column) = new[:2]
    across = abs(row - neck_row) > 1 or abs(column - neck_column) > 1
    return across and len(new) == len(old) == 3 and new[1:] == old[:2]


def test_it_sees_and_chooses_what_its_checkpoint_does(exported) -> None:
    """120 positions of each game of the original game, one game after the other in one module; three snakes a turn ask.

    The recorded snakes do not do what it answers, so it may misread a direction where it is in doubt.
    """
    encoder, run, path = exported
    module, obs = watched(path)
    logits = legal_logits(load_policy(str(run)), rows(encoder)[:COMPARED])
    chosen, at, doubtful = [], [], []
    for number, game in enumerate(games()[:COMPARED]):
        for turn, position in enumerate(game[:PART]):
            observation = position.observation(0)
            doubt = turn > 0 and any(in_doubt(game[turn - 1], position, snake) for snake in range(SNAKES))
            for snake in range(3) if number % 2 else range(3, 6):
                observation["controlled_snake_index"] = snake + 2
                chosen.append(move(module.my_controller(observation, None, False)))
                at.append((number, turn, snake))
                doubtful.append(doubt)
    at = tuple(np.array(at).T)
    assert len(chosen) == COMPARED * PART * 3
    different = (np.array(obs) != rows(encoder)[at]).any(-1)
    assert not (different & ~np.array(doubtful)).any()
    assert different.sum() <= 2
    clear = (margins(logits[at]) > TIE) & ~different
    assert clear.mean() > 0.98
    assert len(set(chosen)) >= 3
    assert (np.array(chosen) == logits[at].argmax(-1))[clear].all()


def test_missing_beans_are_seen_as_in_training(exported) -> None:
    encoder, _, path = exported
    for position, expected in with_few_beans(encoder):
        module, obs = watched(path)
        for snake in range(SNAKES):
            ask(module, position, snake)
        assert np.array_equal(np.array(obs), expected)


@cache
def doubtful_places() -> list[tuple[int, int, int]]:
    """Game, turn and snake of all bodies in doubt."""
    return [
        (number, turn, snake)
        for number, game in enumerate(games())
        for turn in range(1, TURNS)
        for snake in range(SNAKES)
        if in_doubt(game[turn - 1], game[turn], snake)
    ]


@TWO_ENCODERS
def test_an_own_snake_is_never_in_doubt(exported) -> None:
    """Also where it has respawned just where it could have moved to, which a foe cannot tell. Each gets every sixth
    place."""
    encoder, _, path = exported
    described = encoder_named(encoder)
    at = described.orientation_at
    direction = slice(at, at + 1) if at else slice(described.direction_at, described.direction_at + 4)
    module, obs = watched(path)
    moved = respawned = 0
    for i, (number, turn, snake) in enumerate(doubtful_places()):
        if i % 6 and not games()[number][turn].died[snake]:
            continue
        module._match = None
        for position in games()[number][turn - 1 : turn + 1]:
            ask(module, position, snake)
        assert np.array_equal(obs[-1][direction], rows(encoder)[number, turn, snake, direction])
        moved += not games()[number][turn].died[snake]
        respawned += games()[number][turn].died[snake]
    assert moved > 50
    assert respawned >= 2


def test_the_games_hold_what_is_hard_to_see() -> None:
    """Stored directions that neither the body nor last_direction tells: quirks of respawning."""
    torus_blind = late = 0
    for game in games():
        for position in game[1:]:
            for snake, body in enumerate(position.match["snakes"]):
                direction = position.match["directions"][snake]
                late += position.stale[snake] != direction
                (row, column), (neck_row, neck_column) = body[:2]
                step = ((-1, 0), (1, 0), (0, -1), (0, 1))[direction]
                torus_blind += ((neck_row + step[0]) % 10, (neck_column + step[1]) % 20) != (row, column)
    assert late > 5000
    assert torus_blind > 20


@pytest.mark.parametrize("exported", ["tactical_board"], indirect=True)
def test_a_whole_match_is_the_match_of_its_checkpoint(exported) -> None:
    """It remembers what it answered."""
    _, run, path = exported
    with_it = play(str(run), str(path), 1, seed=5, record=True, loader=load_policy)
    without = play(str(run), str(run), 1, seed=5, record=True, loader=load_policy)
    assert not with_it.problems
    assert with_it.away_forfeits == 0
    for which in with_it.replays:
        assert with_it.replays[which].turns == without.replays[which].turns


BARE = """
import importlib.util, json, sys
try:
    import torch
    sys.exit("torch is here")
except ImportError:
    pass
asked = [{int(k) if k.isdigit() else k: v for k, v in json.loads(line).items()} for line in sys.stdin]
answers = []
for path in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location("submission", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    answers.append([module.my_controller(observation, None, False) for observation in asked])
ours = sorted(name for name in sys.modules if name.partition(".")[0] in ("arena", "marl", "opponents", "numba"))
print(json.dumps({"answers": answers, "ours": ours}))
"""


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory) -> Path:
    """A Python that has numpy and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=300)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for source in Path(np.__file__).parent.parent.glob("numpy*"):
        (site / source.name).symlink_to(source)
    return folder / "bin" / "python"


def test_it_runs_where_only_numpy_is_installed(export, bare_python) -> None:
    paths = [path for _, _, path in map(export, ENCODERS)]
    game = games()[3][::4]
    asked = [position.observation(snake) for position in game for snake in (0, 4)]
    done = subprocess.run(
        [bare_python, "-I", "-c", BARE, *paths],
        input="\n".join(map(json.dumps, asked)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    answered = json.loads(done.stdout)
    assert answered["ours"] == []
    for path, answers in zip(paths, answered["answers"], strict=True):
        module = loaded(path)
        assert answers == [module.my_controller(observation, None, False) for observation in asked], path


# --- odd input --------------------------------------------------------------------------------------------------------

OBSERVATION = jidi_observation(first_step("greedy-1000").before, 4, None)


def changed(**changes) -> dict:
    """An observation with some entries changed (s4 means key 4), or left out where they are None."""
    observation = copy.deepcopy(OBSERVATION)
    for name, value in changes.items():
        key = int(name[1:]) if name[1:].isdigit() else name
        if value is None:
            del observation[key]
        else:
            observation[key] = value
    return observation


ODD = {
    "none": None,
    "a number": 5,
    "a list": [1, 2],
    "empty": {},
    "no index": changed(controlled_snake_index=None),
    "index too high": changed(controlled_snake_index=8),
    "index too low": changed(controlled_snake_index=0),
    "index a text": changed(controlled_snake_index="blue"),
    "own body empty": changed(s6=[]),
    "own body of one": changed(s6=[[3, 4]]),
    "own body missing": changed(s6=None),
    "own body no list": changed(s6=7),
    "own body of texts": changed(s6=["ab", "cd", "ef"]),
    "not a number": changed(s6=[[float("nan"), 1], [2, 3], [4, 5]]),
    "off the board": changed(s6=[[100, -7], [2, 3], [4, 5]]),
    "a mate's body empty": changed(s5=[]),
    "a foe's body missing": changed(s2=None),
    "all bodies empty": changed(**{f"s{key}": [] for key in range(2, 8)}),
    "no beans": changed(s1=[]),
    "beans missing": changed(s1=None),
    "ten beans": changed(s1=[[row, 7] for row in range(10)]),
    "directions too few": changed(last_direction=["up"]),
    "directions unknown": changed(last_direction=["north"] * 6),
    "directions a number": changed(last_direction=3),
    "directions missing": {key: value for key, value in OBSERVATION.items() if key != "last_direction"},
}  # fmt: skip


@TWO_ENCODERS
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_odd_input_gets_a_move_and_does_no_harm(exported, odd) -> None:
    _, _, path = exported
    module = loaded(path)
    first, second = games()[0][:2]
    move(module.my_controller(copy.deepcopy(odd), None, False))
    module.my_controller(first.observation(4), None, False)
    move(module.my_controller(copy.deepcopy(odd), [None], True))
    fresh = loaded(path)
    fresh.my_controller(first.observation(4), None, False)
    expected = fresh.my_controller(games()[1][0].observation(4), None, False)
    assert module.my_controller(games()[1][0].observation(4), None, False) == expected, (
        "a new match starts from nothing"
    )
    move(module.my_controller(second.observation(4), None, False))


@TWO_ENCODERS
def test_a_policy_that_fails_is_told_once_and_the_snake_evades(exported, monkeypatch, capsys) -> None:
    _, _, path = exported
    module = loaded(path)

    def fail(_) -> None:
        raise RuntimeError("no logits")

    monkeypatch.setattr(module, "logits", fail)
    for position in games()[0][:3]:
        answer = move(module.my_controller(position.observation(4), None, False))
        assert answer == module.evade([module.cells(position.observation(4), key) for key in range(2, 8)], 4)
    told = "submission: the policy fails; a snake goes straight on or aside: RuntimeError: no logits\n"
    assert capsys.readouterr() == ("", told)


@TWO_ENCODERS
@pytest.mark.parametrize("kind", ["tuples", "arrays", "text keys", "no last_direction"])
def test_other_forms_of_the_same_observation_are_understood(exported, kind) -> None:
    encoder, _, path = exported
    module, obs = watched(path)
    for position in games()[2][:50]:
        observation = position.observation(1)
        if kind == "tuples":
            observation = {
                key: tuple(map(tuple, value)) if isinstance(key, int) else value for key, value in observation.items()
            }
        elif kind == "arrays":
            observation = {
                key: np.array(value) if isinstance(key, int) else value for key, value in observation.items()
            }
        elif kind == "text keys":
            observation = {str(key): value for key, value in observation.items()}
        else:
            del observation["last_direction"]
        ask(module, position, 1, observation)
    assert np.array_equal(np.array(obs), rows(encoder)[2, :50, 1])


@TWO_ENCODERS
def test_a_live_observation_is_neither_kept_nor_changed(exported) -> None:
    """The competition hands out its own lists, which change under the feet of whoever keeps them."""
    encoder, _, path = exported
    module, obs = watched(path)
    live = games()[4][0].observation(5)
    for position in games()[4][:100]:
        now = position.observation(5)
        for key in range(1, 8):
            live[key][:] = now[key]
        live["last_direction"] = now["last_direction"]
        ask(module, position, 5, live)
        assert live == now
    assert np.array_equal(np.array(obs), rows(encoder)[4, :100, 5])


def test_taken_up_in_the_middle_only_the_turn_is_unknown(exported) -> None:
    encoder, _, path = exported
    game = games()[5]
    turns_left = {"planes": 6 * 200 + 7, "egocentric": 1016 + 25, "tactical_board": 1016 + 25}.get(encoder, 25)
    right = 0
    for turn in range(20, 200, 5):
        module, obs = watched(path)
        for snake in range(SNAKES):
            module.my_controller(game[turn].observation(snake), None, False)
        different = np.array(obs) != rows(encoder)[5, turn]
        different[:, turns_left] = False
        right += not different.any()
    assert right >= 35  # of 36: a snake that has respawned across the edge may look as if it had moved there


@TWO_ENCODERS
def test_nothing_random_and_nothing_global(exported) -> None:
    _, _, path = exported
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    for _ in range(2):
        module = loaded(path)
        answers = [module.my_controller(position.observation(0), None, False) for position in games()[6][:50]]
        assert len({str(answer) for answer in answers}) > 1
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_every_encoder_is_known_and_the_canonical_one_also_by_its_earlier_name() -> None:
    from marl.export.tactical_template import ENCODERS as known

    assert set(ENCODERS) == set(submission_file.ENCODERS) == set(known) - {"turned"}
    assert known["turned"] is known["canonical"]


def test_a_value_is_left_out(tmp_path) -> None:
    """The fifth output of a policy that judges positions must never be taken for a move."""
    who = player("features", value=True)
    who.actor.tail.head.bias[4] = 1e6
    path = tmp_path / "submission.py"
    path.write_text(submission_source(policy_layers(who), who.encoder, 'it\'s "odd"\n\\'))
    module = loaded(path)
    assert module.PLAYER == 'it\'s "odd"\n\\'
    logits = legal_logits(who, rows("features")[7, :, 2])
    chosen = np.array([ask(module, position, 2) for position in games()[7]])
    assert (chosen == logits.argmax(-1))[margins(logits) > TIE].all()


@pytest.mark.parametrize("encoder", ["tactical", "planes"])
def test_half_floats_stay_half_floats_to_the_same_weights(tmp_path, encoder) -> None:
    """As the champion's are: half the file. Other weights are written as floats."""
    who, sizes = player(encoder), []
    for halves in (False, True):
        if halves:
            round_to_halves(who)
        layers, path = policy_layers(who), tmp_path / f"{len(sizes)}.py"
        path.write_text(submission_source(layers, who.encoder, "it"))
        sizes.append(len(path.read_text().split("LAYERS = unpacked")[-1]))
        for (weight, bias), layer in zip(loaded(path).LAYERS, layers, strict=True):
            assert np.array_equal(weight, layer.weight.T)
            assert np.array_equal(bias, layer.bias)
    assert 0.49 < sizes[1] / sizes[0] < 0.6


def test_a_formatter_leaves_it_as_it_is(tmp_path) -> None:
    pytest.importorskip("ruff", reason="ruff is not installed")
    who = player("canonical")
    names = ["champion", "run1_20260101_120000", "it's", 'say "a"', "größer"]
    paths = [tmp_path / f"{number}.py" for number in range(len(names))]
    for name, path in zip(names, paths, strict=True):
        path.write_text(submission_source(policy_layers(who), who.encoder, name))
    for words in (["format", "--check"], ["check"]):
        call = [sys.executable, "-m", "ruff", *words, "--no-cache", "--config", ROOT / "pyproject.toml", *paths]
        done = subprocess.run(call, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout


def test_the_linter_looks_at_our_folders_only(tmp_path) -> None:
    pytest.importorskip("ruff", reason="ruff is not installed")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in ("my_team", "marl/export"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "submission.py").write_text("X = 'single quotes'\n")
    call = [sys.executable, "-m", "ruff", "format", "--check", "--no-cache", "."]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "marl/export/submission.py" in done.stdout
    assert "my_team" not in done.stdout

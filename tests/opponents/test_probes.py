"""The probes: every move as in plain Python, no reversals, and known to every command that takes players."""

import json

import numpy as np
import pytest
import torch
from helpers.drawn_boards import Positions, positions_in_play
from helpers.plain_probes import PLAIN_PROBES
from helpers.run_opponents import elsewhere
from helpers.training import here

from arena.rules import DIRECTION, HEAD, LENGTH, OVER, SNAKES, TURN
from opponents import loops, players
from opponents.match import play
from opponents.probes import PROBES
from opponents.scripted import SCRIPTED

SEED = 77
POSITIONS = 15
COMPILED = ("mirror", "shadow")  # compiling all takes a minute


@pytest.fixture(scope="module")
def in_play() -> Positions:
    """Positions of all lengths and turns, none of a match that is over."""
    print(f"seed {SEED}")
    found = positions_in_play(SEED, matches=4, every=20)
    going = (found.state[:, OVER] == 0).nonzero().flatten()
    some = going[torch.linspace(0, len(going) - 1, POSITIONS).long()]  # the simulator is slow
    return Positions(found.state[some], found.keys[some])


@pytest.fixture(scope="module")
def by_kernels(in_play, tmp_path_factory) -> dict[str, np.ndarray]:
    """The moves by the CUDA kernels' own text, run as plain Python: nothing is compiled."""
    positions = in_play.state.numpy(), in_play.keys.numpy()
    environment = {"NUMBA_DISABLE_JIT": "1", "NUMBA_ENABLE_CUDASIM": "1"}
    return elsewhere("simulator", *positions, tmp_path_factory.mktemp("probes"), "probes", **environment)


def test_there_are_twenty_probes_off_the_ladder() -> None:
    assert len(PROBES) == 20
    assert not PROBES.keys() & SCRIPTED.keys()
    assert all(function.__name__ == name for name, function in PROBES.items())
    assert PLAIN_PROBES.keys() == PROBES.keys()


@pytest.mark.parametrize("name", PROBES)
def test_every_move_is_that_of_plain_python(name, in_play, by_kernels) -> None:
    rows, keys, found = in_play.state.numpy(), in_play.keys.numpy(), by_kernels[f"{name}:0.0"]
    for row, key, moves in zip(rows, keys, found, strict=True):
        expected = [PLAIN_PROBES[name](row, int(key), snake) for snake in range(SNAKES)]
        assert moves.tolist() == expected, f"turn {row[TURN]}, heads {row[HEAD : HEAD + SNAKES]}, seed {SEED}"
    directions = rows[:, DIRECTION : DIRECTION + SNAKES]
    assert (found != directions ^ 1).all(), "a reversal would become a random move"


def test_the_positions_show_what_differs(in_play, by_kernels) -> None:
    lengths, turns = in_play.state[:, LENGTH : LENGTH + SNAKES], in_play.state[:, TURN]
    assert ((lengths >= 8).any(), (lengths < 8).any(), (turns >= 150).any(), (turns < 150).any()) == (True,) * 4
    teams = [by_kernels[f"{name}:0.0"].tobytes() for name in PROBES]
    assert len(set(teams)) == 20, "no two are the same team"


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_code_decides_alike(name, in_play, by_kernels) -> None:
    moves = torch.full((len(in_play.state), SNAKES), -1, dtype=torch.int8)
    arena = in_play.arena()
    loops.act(PROBES[name], arena, torch.arange(len(moves) * SNAKES, dtype=torch.int32), moves)
    np.testing.assert_array_equal(moves.numpy(), by_kernels[f"{name}:0.0"])


def test_noise_is_that_of_other_scripted_players(by_kernels) -> None:
    for name in PROBES:
        differ = (by_kernels[f"{name}:0.3"] != by_kernels[f"{name}:0.0"]).mean()
        assert 0.08 < differ < 0.35, name  # a random move is the same one in a third of the cases


def test_they_are_players_of_every_command() -> None:
    assert play("mirror", "shadow:0.5", 4, seed=SEED).matches == 4
    assert players.find("headhunter:0.2").name == "headhunter:0.2"
    listed = json.loads(here("eval", "--list", "--json").stdout)
    assert all(listed[name].endswith(".") for name in PROBES)
    done = here("eval", "--home", "hedhunter", "--away", "level0")
    assert done.returncode == 2
    assert "did you mean headhunter?" in done.stderr
    assert "is scripted" in here("export", "mirror", "--safetensors", "x.safetensors").stderr


def test_the_default_league_leaves_them_out() -> None:
    assert not PROBES.keys() & dict(players.listing()).keys()

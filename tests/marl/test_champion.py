"""The team that comes with the program: what its card says is true, and every command knows it."""

import json
import os
import subprocess
import sys

import pytest
from helpers.command import ROOT

from marl.config.train_config import read_config
from marl.storage.saved_player import load_player
from opponents.match import play
from opponents.players import champion, find, listing

CARD = json.loads((ROOT / "opponents" / "champions" / "champion.json").read_text())
MOST_BYTES = 3_000_000


def test_it_is_a_player_with_a_name() -> None:
    assert dict(listing())["champion"] == CARD["about"]
    player = find("champion", load_player)
    assert player.name == "champion"
    assert player.encoder.name == CARD["network"]["encoder"]
    assert list(player.actor.spec.body) == CARD["network"]["body"]
    assert sum(weight.numel() for weight in player.actor.parameters()) == CARD["network"]["weights"]


def test_python_finds_it_by_its_name_alone(tmp_path) -> None:
    """The entry points of pyproject.toml as an installation writes them, found without any import of marl."""
    project = (ROOT / "pyproject.toml").read_text().partition('[project.entry-points."snakes_3v3.loaders"]\n')[2]
    installed = tmp_path / "snakes_3v3_test-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: snakes-3v3-test\nVersion: 1\n")
    lines = project.partition("\n\n")[0].replace('"', "")
    (installed / "entry_points.txt").write_text(f"[snakes_3v3.loaders]\n{lines}\n")
    code = "from opponents.players import find; print(find('champion').name)"
    path = os.pathsep.join((str(ROOT), str(tmp_path)))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "champion\n", done.stderr


def test_it_is_small() -> None:
    assert champion("champion").stat().st_size <= MOST_BYTES


def test_the_command_on_its_card_is_that_of_the_configuration_there() -> None:
    file = CARD["command"].rpartition("--config ")[2]
    config = read_config(["--config", str(ROOT / file)])
    asked = CARD["config"]
    assert config.algo == asked["algo"]
    assert config.matches == asked["matches"]
    assert 60 * config.max_minutes == CARD["training"]["seconds"]
    assert config.schedule.self_play == asked["self_play"]
    assert (config.ppo.lr, config.ppo.batch_size) == (asked["ppo"]["lr"], asked["ppo"]["batch_size"])


@pytest.mark.parametrize("name", CARD["results"]["against"])
def test_its_results_add_up(name) -> None:
    result = CARD["results"]["against"][name]
    matches = result["wins"] + result["draws"] + result["losses"]
    assert matches == 2000
    assert result["win_rate"] == pytest.approx(result["wins"] / matches, abs=1e-4)
    assert result["win_rate_low"] < result["win_rate"] < result["win_rate_high"]


def test_it_wins_as_its_card_says() -> None:
    """99 % of the matches: fewer than 34 of 40 once in a thousand million times."""
    results = play("champion", "level2", 40, seed=5, loader=load_player)
    assert results.wins >= 34, results

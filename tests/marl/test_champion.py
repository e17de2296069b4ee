"""The teams that come with the program: what their cards say is true, and every command knows them."""

import json

import pytest
from helpers.command import ROOT

from marl.config.train_config import read_config
from marl.storage.saved_player import load_policy
from opponents.match import play
from opponents.players import champion, find, listing

MOST_BYTES = {
    "champion": 3_000_000, "champion_growth": 3_000_000, "champion_small": 200_000, "champion_planes": 3_000_000
}  # fmt: skip
CARDS = {name: json.loads((ROOT / "opponents" / "champions" / f"{name}.json").read_text()) for name in MOST_BYTES}


@pytest.mark.parametrize("name", CARDS)
def test_it_is_a_player_with_a_name(name) -> None:
    card = CARDS[name]
    assert dict(listing())[name] == card["about"]
    player = find(name, load_policy)
    assert player.name == name
    assert player.encoder.name == card["network"]["encoder"]
    assert list(player.actor.spec.body) == card["network"]["body"]
    assert sum(weight.numel() for weight in player.actor.parameters()) == card["network"]["weights"]


def test_python_finds_it_by_its_name_alone(tmp_path, monkeypatch) -> None:
    """The entry points of pyproject.toml as an installation writes them."""
    project = (ROOT / "pyproject.toml").read_text().partition('[project.entry-points."snakes_3v3.loaders"]\n')[2]
    installed = tmp_path / "snakes_3v3_test-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: snakes-3v3-test\nVersion: 1\n")
    lines = project.partition("\n\n")[0].replace('"', "")
    (installed / "entry_points.txt").write_text(f"[snakes_3v3.loaders]\n{lines}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert find("champion_small").name == "champion_small"


@pytest.mark.parametrize("name", MOST_BYTES)
def test_it_is_small(name) -> None:
    assert champion(name).stat().st_size <= MOST_BYTES[name]


@pytest.mark.parametrize("name", CARDS)
def test_the_command_on_its_card_trains_what_the_card_says(name) -> None:
    card = CARDS[name]
    _, _, words = card["command"].partition(" train ")
    config = read_config([word.replace("configs/", f"{ROOT}/configs/") for word in words.split()])
    asked = card["config"]
    assert (config.algo, config.matches) == (asked["algo"], asked["matches"])
    assert config.network.encoder == asked["network"]["encoder"] == card["network"]["encoder"]
    assert list(config.network.body) == card["network"]["body"]
    if config.max_minutes:
        assert 60 * config.max_minutes == pytest.approx(card["training"]["seconds"])
    else:
        assert config.schedule.max_episodes == pytest.approx(card["training"]["episodes"], rel=1e-3)
    assert config.schedule.self_play == asked["self_play"]
    assert config.ppo.lr == pytest.approx(float(asked["ppo"]["lr"]))
    assert config.ppo.batch_size == asked["ppo"]["batch_size"]
    assert config.ppo.optimizer == asked["ppo"].get("optimizer", "adam")


RESULTS = [
    (card["results"]["against"][name], 4000) for card in CARDS.values() for name in card["results"]["against"]
] + [(result, 500) for result in CARDS["champion_growth"]["odd_teams"]["against"].values()]


@pytest.mark.parametrize(("result", "matches"), RESULTS)
def test_its_results_add_up(result, matches) -> None:
    assert result["wins"] + result["draws"] + result["losses"] == matches
    assert result["win_rate"] == pytest.approx(result["wins"] / matches, abs=1e-4)
    assert result["win_rate_low"] < result["win_rate"] <= result["win_rate_high"]


@pytest.mark.parametrize("name", ["champion", "champion_small"])
def test_it_wins_as_its_card_says(name) -> None:
    """98 % of the matches: fewer than 18 of 24 once in a million times."""
    results = play(name, "level2", 24, seed=5, loader=load_policy)
    assert results.wins >= 18, results

"""The command `league`, called like a user calls it, and its picture."""

import json

import numpy as np
import pytest
from helpers.command import assert_one_line
from helpers.training import alone, here
from PIL import Image

from marl.pictures.league_table import EVEN, LOST, PAPER, WON, draw
from opponents.league import Table, rate

CALL = ("league", "--players", "level0,level2,level1", "--matches", "20", "--seed", "1")


def test_json_and_picture(tmp_path):
    result = alone(*CALL, "--json", "--png", tmp_path / "league.png")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["matches"], report["seed"]) == (20, 1)
    players = report["players"]
    assert [player["name"] for player in players] == ["level2", "level1", "level0"]  # best first
    assert sum(player["rating"] for player in players) == pytest.approx(3 * 1500)
    for player in players:
        assert player["rating_low"] < player["rating"] < player["rating_high"]
    assert [(pair["home"], pair["away"]) for pair in report["pairs"]] == [
        ("level2", "level1"), ("level2", "level0"), ("level1", "level0"),
    ]  # fmt: skip
    for pair in report["pairs"]:
        assert pair["wins"] + pair["draws"] + pair["losses"] == 20
        assert pair["points"] == (pair["wins"] + pair["draws"] / 2) / 20
    with Image.open(tmp_path / "league.png") as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}
    assert len(colours) > 20


def test_text_lines_up():
    result = here(*CALL)
    assert result.returncode == 0, result.stderr
    heading, *rows = result.stdout.splitlines()[2:]
    assert [row.split()[1] for row in rows] == ["level2", "level1", "level0"]
    assert {len(row) for row in rows} == {len(heading)}
    assert "compiling" in result.stderr or result.stderr == ""


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--players", "level1,,level2"], ["--players", "'level1,,level2'"]),
        (["--players", "level1,nobody"], ["'nobody'", "level0"]),
        (["--players", "level1,level2", "--png", "no/such/folder/x.png"], ["--png", "no/such/folder"]),
    ],
)
def test_mistakes(words, parts):
    assert_one_line(here("league", *words), *parts)


def table(names, wins) -> Table:
    draws = 100 - wins - wins.T
    np.fill_diagonal(draws, 0)
    return Table(tuple(names), 100, wins, draws, *rate(wins + draws / 2))


def test_the_picture_shows_who_wins():
    image = draw(table(["loser", "winner"], np.array([[0, 0], [100, 0]])))
    colours = {colour for _, colour in image.getcolors(1 << 24)}
    assert {PAPER, WON, LOST} <= colours
    assert EVEN in {c for _, c in draw(table("ab", np.zeros((2, 2), np.int64))).getcolors(1 << 24)}


def test_long_names_and_many_players_fit():
    names = [f"runs/a-long-name-for-a-run/checkpoints/{i:08}" for i in range(12)]
    wins = np.triu(np.full((12, 12), 80), 1)
    image = draw(table(names, wins))
    assert image.width < 5000
    pixels = np.asarray(image)
    for edge in (pixels[:20], pixels[-20:], pixels[:, :20], pixels[:, -20:]):
        assert (edge == PAPER).all()  # nothing was cut off

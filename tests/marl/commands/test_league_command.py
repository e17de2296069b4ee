"""The command `league`, called like a user calls it, and its picture."""

import csv
import json

import numpy as np
import pytest
from helpers.command import assert_one_line
from helpers.training import alone, here
from PIL import Image

from marl.pictures.league_table import EVEN, LOST, PAPER, WON, draw
from opponents.round_robin import Table, rate

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


def test_decided_pairs_stop_and_both_error_rates_are_named():
    words = ("league", "--players", "level0,level3,level3:0.01", "--matches", "40", "--stop_when_decided")
    report = json.loads(here(*words, "--json").stdout)
    assert report["error_rates"] == {"home_is_better": 0.025, "away_is_better": 0.025}
    pairs = {(pair["home"], pair["away"]): pair for pair in report["pairs"]}
    for pair in report["pairs"]:
        assert pair["wins"] + pair["draws"] + pair["losses"] == pair["matches"] <= 40
        is_clear = pair["away"] == "level0"
        assert (pair["decided"], pair["matches"] < 40) == (("home", True) if is_clear else (None, False)), pairs
    text = here(*words).stdout
    assert text.startswith("16 to 40 matches per pair")
    assert "decided who is better: 2 of 3 pairs" in text
    assert "at most 2.5% of the cases, home and away alike" in text


def test_a_csv_has_a_line_for_each_player(tmp_path):
    report = json.loads(here(*CALL, "--json", "--csv", tmp_path / "league.csv").stdout)
    rows = list(csv.DictReader((tmp_path / "league.csv").read_text("utf-8-sig").splitlines()))
    assert [row["name"] for row in rows] == [player["name"] for player in report["players"]]
    assert [row["place"] for row in rows] == ["1", "2", "3"]
    assert float(rows[0]["against level0"]) == next(p["points"] for p in report["pairs"] if p["away"] == "level0")
    assert rows[0]["against level2"] == ""
    assert {(row["matches"], row["errors"], row["mean_ms"]) for row in rows} == {("40", "0", "")}


def test_minutes_are_played_and_nothing_else_goes_on():
    done = here("league", "--players", "level0,level1", "--minutes", "0.00001", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["matches"] == 2  # one board, in any case
    assert_one_line(here("league", "--minutes", "0"), "--minutes", "no number above 0")
    assert_one_line(here("league", "--matches", "0"), "--matches", "no whole number from 1")

"""`league --daily DIR`: a page for every day, and the ratings of the days on it."""

import json
import re

import pytest
from helpers import browser
from helpers.short_matches import SHORT

from marl.cli.main import main

WORDS = ["league", "--matches", "4", "--seed", "1", "--players"]


@pytest.fixture
def on_day(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("opponents.match.TURNS", SHORT)
    folder = tmp_path / "每日 league"

    def play(date, players="level0,level2"):
        monkeypatch.setattr("arena.replay.today", lambda: date)
        code = main([*WORDS, players, "--daily", str(folder)])
        return code, capsys.readouterr()

    return folder, play


def shown_days(folder, name="index.html"):
    text = (folder / name).read_text()
    return json.loads(re.search(r'"days":(\[.*?\])\}</script>', text)[1])


def test_every_day_keeps_its_page_and_the_newest_is_the_index(on_day):
    folder, play = on_day
    for date in ("2026-11-15", "2026-11-16", "2026-11-16", "2026-11-18"):
        assert play(date)[0] == 0
    dates = ["2026-11-15", "2026-11-16", "2026-11-18"]
    names = {f"league-{date}.{ending}" for date in dates for ending in ("html", "json")}
    assert {path.name for path in folder.iterdir()} == {*names, "index.html"}
    assert (folder / "index.html").read_bytes() == (folder / "league-2026-11-18.html").read_bytes()
    assert shown_days(folder, "league-2026-11-15.html") == []  # the ratings of one day are in the table
    assert [day["date"] for day in shown_days(folder, "league-2026-11-16.html")] == dates[:2]
    days = shown_days(folder)
    assert [day["date"] for day in days] == dates
    assert [day["page"] for day in days] == ["league-2026-11-15.html", "league-2026-11-16.html", None]
    kept = json.loads((folder / "league-2026-11-15.json").read_text())
    assert {player["name"]: player["rating"] for player in kept["players"]} == days[0]["ratings"]


def test_a_file_that_is_no_league_is_told_before_any_match(on_day):
    folder, play = on_day
    folder.mkdir()
    (folder / "league-2026-11-14.json").write_text('{"players": 3}')
    (folder / "league-notes.json").write_text("mine")
    code, said = play("2026-11-15")
    assert code == 2
    assert "league-2026-11-14.json is no result of a league" in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert play("2026-11-14")[0] == 0  # that day itself is written anew


@pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "there is one")
def test_the_page_draws_a_line_for_each_team_of_today(on_day):
    folder, play = on_day
    play("2026-11-15", "level0,level1,level3")
    play("2026-11-16", "level0,level2,level3")
    with browser.chromium() as chrome:
        page = chrome.open((folder / "index.html").as_uri(), few_frames=True)
        lines = "[...document.querySelectorAll('#days polyline')].map(e => e.getAttribute('points').split(' ').length)"
        assert sorted(page.value(lines)) == [1, 2, 2]  # level2 is new; level1 is not there today
        texts = page.value("[...document.querySelectorAll('#days svg text')].map(e => e.textContent)")
        assert {"level0", "level2", "level3", "2026-11-15", "2026-11-16"} <= {*texts}
        page.value("document.querySelector('#days a').click()")
        page.wait("location.pathname.endsWith('league-2026-11-15.html') && document.readyState === 'complete'")
        assert page.value("document.querySelector('#days').hidden")
        assert page.errors == []

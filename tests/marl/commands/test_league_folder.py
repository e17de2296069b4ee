"""`league --folder`: a course's homework as a tournament."""

import json

import pytest
from helpers.command import assert_one_line
from helpers.course import CAUSES, LABELS, short_matches, write_homework
from helpers.submissions import UNCAGED_FLAG
from helpers.training import here

from marl.analysis.tables import display_width


@pytest.fixture(scope="module")
def homework(tmp_path_factory):
    return write_homework(tmp_path_factory.mktemp("作业 one"))


@pytest.fixture(autouse=True)
def short(monkeypatch):
    short_matches(monkeypatch)


def test_every_submission_plays_and_the_broken_ones_are_listed(homework):
    done = here("league", "--folder", homework, "--matches", "1", "--json", *UNCAGED_FLAG)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {player["name"] for player in report["players"]} == LABELS
    assert len(report["pairs"]) == len(LABELS) * (len(LABELS) - 1) // 2
    assert {each["label"] for each in report["broken"]} == {*CAUSES}
    for each in report["broken"]:
        assert each["cause"].startswith(CAUSES[each["label"]])
    assert report["estimated_seconds"] is None  # measuring would take longer than so few matches
    players = {player["name"]: player for player in report["players"]}
    assert (players["cat"]["forfeits"], players["endless"]["forfeits"], players["ada"]["forfeits"]) == (8, 8, 0)
    assert (players["ada"]["errors"], players["planned"]["errors"]) == (0, 0)
    assert players["cat"]["errors"] >= 8 * 10
    assert 0 < players["planned"]["mean_ms"] <= players["planned"]["longest_ms"]


def test_the_table_lines_up_with_chinese_names(homework):
    names = ",".join(str(homework / name) for name in ("ada", "bob"))
    words = ("--players", str(homework / "[李b]*"), names, "level0", "--matches", "1")
    done = here("league", *words, *UNCAGED_FLAG)
    assert done.returncode == 0, done.stderr
    heading, *rest = done.stdout.splitlines()[2:]
    rows = rest[: rest.index("")]
    assert {row.split()[1] for row in rows} == {"ada", "bob", "李四", "level0"}
    assert {display_width(row) for row in rows} == {len(heading)}
    assert rest[-1].split(maxsplit=1)[0] == "broken"
    assert ["李四", "0", "0"] in [line.split()[:3] for line in rest]  # errors and forfeits


def test_a_broken_one_that_was_named_is_an_error_before_any_match(homework):
    broken = homework / "broken" / "submission.py"
    parts = ("cannot be loaded: SyntaxError", "broken/submission.py")
    assert_one_line(here("league", "--players", f"level0,{broken}", *UNCAGED_FLAG), *parts)
    assert_one_line(here("eval", "--home", broken, "--away", "level0", *UNCAGED_FLAG), *parts)
    assert_one_line(here("eval", "--home", "level0", "--away", f"level1,{broken}", *UNCAGED_FLAG), *parts)


def test_a_folder_with_one_that_loads_is_told_with_the_causes(homework):
    words = ("--players", str(homework / "bro*"), str(homework / "ada"), *UNCAGED_FLAG)
    assert_one_line(here("league", *words), "at least two players, got 1; broken: cannot be loaded: SyntaxError")

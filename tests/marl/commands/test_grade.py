"""The command `grade`, called like a teacher calls it."""

import csv
import json

import pytest
from helpers.command import assert_one_line
from helpers.course import CAUSES, LABELS, short_matches, write_homework
from helpers.submissions import UNCAGED_FLAG
from helpers.training import here

from marl.commands import grade
from opponents.intervals import wilson


@pytest.fixture(scope="module")
def homework(tmp_path_factory):
    return write_homework(tmp_path_factory.mktemp("作业"))


@pytest.fixture(autouse=True)
def short(monkeypatch):
    short_matches(monkeypatch)


def few(homework, folder, *names):
    """A folder with some of the submissions."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(homework / name)
    return folder


def test_every_submission_gets_a_line_and_broken_ones_their_cause(homework, tmp_path):
    table = tmp_path / "grades.csv"
    words = ("--against", "level0,level3", "--matches", "2", "--out", table, *UNCAGED_FLAG)
    done = here("grade", homework, *words)
    assert done.returncode == 0, done.stderr
    assert str(table) in done.stdout
    lines = {line["name"]: line for line in csv.DictReader(table.read_text("utf-8-sig").splitlines())}
    assert {name for name, line in lines.items() if line["loads"] == "yes"} == LABELS
    for name, cause in CAUSES.items():
        line = lines[name]
        assert (line["loads"], float(line["points"]), line["errors"]) == ("no", 0, "")
        assert line["remarks"].startswith(cause)
        assert cause in done.stdout
    for name in ("ada", "李四", "dan", "planned"):
        line = lines[name]
        assert (line["errors"], line["forfeits"], line["remarks"]) == ("0", "0", "")
        assert 0 < float(line["mean_ms"]) <= float(line["longest_ms"])
        won = float(line["level3 won"])
        low, high = wilson(2 * won, 2)
        assert (float(line["level3 low"]), float(line["level3 high"])) == (round(low, 4), round(high, 4))
        assert float(line["points"]) >= 20
    assert (lines["cat"]["forfeits"], lines["endless"]["forfeits"]) == ("4", "4")
    assert int(lines["cat"]["errors"]) >= 4 * 10
    assert "instead of [[one-hot of 4]]" in lines["cat"]["remarks"]
    assert "stopped 1 times in a row" in lines["endless"]["remarks"]
    assert float(lines["endless"]["points"]) == 10  # it loads


def test_points_of_a_file_and_the_seed_repeat(homework, tmp_path):
    (tmp_path / "points.yaml").write_text("loads: 3\nwon: {level0: {0: 4}}\n")
    one = few(homework, tmp_path / "one", "bob")
    words = ("grade", one, "--against", "level0", "--matches", "2", "--points", tmp_path / "points.yaml", "--json")
    first = json.loads(here(*words, *UNCAGED_FLAG).stdout)
    assert first["most_points"] == 7
    (bob,) = first["grades"]
    assert (bob["name"], bob["loads"], bob["points"]) == ("bob", True, 7)
    again = json.loads(here(*words, "--seed", str(first["seed"]), *UNCAGED_FLAG).stdout)
    (pair,), (same,) = bob["pairs"], again["grades"][0]["pairs"]
    assert {**pair, "turns_per_second": 0} == {**same, "turns_per_second": 0}


def test_the_table_of_a_grading_that_is_broken_off_has_those_that_have_played(homework, tmp_path, monkeypatch):
    table, grade_one = tmp_path / "grades.csv", grade._grade

    def grade_first(*words):
        if table.exists():
            raise KeyboardInterrupt
        return grade_one(*words)

    monkeypatch.setattr(grade, "_grade", grade_first)
    words = ("--against", "level0", "--matches", "2", "--out", table, *UNCAGED_FLAG)
    here("grade", few(homework, tmp_path / "two", "ada", "bob"), *words)
    assert [line["name"] for line in csv.DictReader(table.read_text("utf-8-sig").splitlines())] == ["ada"]


def test_a_file_that_cannot_be_written_is_told_before_the_first_match(homework, tmp_path, monkeypatch):
    def play(*_, **__):
        raise AssertionError("it was played")

    monkeypatch.setattr("opponents.match.play", play)
    table = tmp_path / f"{'x' * 250}.csv"  # its draft has a longer name
    words = ("--against", "level0", "--matches", "2", "--out", table, *UNCAGED_FLAG)
    assert_one_line(here("grade", few(homework, tmp_path / "one", "ada"), *words), "cannot be written")


def test_no_student_can_know_the_matches_and_a_forfeit_is_not_clean(homework, tmp_path, monkeypatch):
    """A submission that only takes too long makes no error."""
    monkeypatch.setattr("opponents.submission.MATCH_SECONDS", 0.0)
    (tmp_path / "points.yaml").write_text("loads: 1\nclean: 2\n")
    words = ("--against", "level0", "--matches", "2", "--points", tmp_path / "points.yaml", "--json", *UNCAGED_FLAG)
    found = json.loads(here("grade", few(homework, tmp_path / "one", "ada"), *words).stdout)
    (one,) = found["grades"]
    assert (one["errors"], one["forfeits"], one["points"]) == (0, 2, 1)
    assert found["seed"] != 0, "one that could have been computed before"


def test_mistakes_are_one_line(homework, tmp_path, monkeypatch):
    assert_one_line(here("grade"), "grade needs a folder")
    assert_one_line(here("grade", tmp_path / "no"), "there is no such folder")
    assert_one_line(here("grade", __file__), "that is a file; need a folder")
    assert_one_line(here("grade", homework, "--against", "levle1"), "did you mean level1?")
    assert_one_line(here("grade", homework, "--points", tmp_path / "no.yaml"), "no.yaml", "cannot be read")
    assert_one_line(here("grade", homework, "--out", tmp_path / "no" / "x.csv"), "--out")
    broken = homework / "broken" / "submission.py"
    assert_one_line(here("grade", homework, "--against", broken, *UNCAGED_FLAG), "cannot be loaded: SyntaxError")
    # A machine without a cage is no fault of the submissions: nobody is graded.
    monkeypatch.setattr("opponents.submission.why_not_sandboxed", lambda: "unshare: Operation not permitted")
    assert_one_line(here("grade", homework, "--against", "level0"), "cannot sandbox", "--uncaged")

"""Points of a grading: worked examples, and mistakes in the file."""

import pytest

from marl.analysis.points import PointsTable, read_points
from marl.errors import UserError

OPPONENTS = ("level1", "level2")


def test_the_default_table():
    table = PointsTable()
    assert table.most(OPPONENTS) == 10 + 10 + 2 * 20
    assert table.points(True, {"level1": 0.9, "level2": 0.74}) == 10 + 10 + 20 + 10
    assert table.points(False, {"level1": 0.25, "level2": 0.24}) == 10 + 5


def test_a_table_of_the_teacher(tmp_path):
    file = tmp_path / "points 表.yaml"
    file.write_text("loads: 1\nwon:\n  level1: {1: 7.5, 0.5: 3}\n  each: {0: 2}\n")
    table = read_points(file, OPPONENTS)
    assert table.points(True, {"level1": 0.99, "level2": 0.0}) == 1 + 3 + 2
    assert table.points(False, {"level1": 1.0, "level2": 1.0}) == table.most(OPPONENTS) == 1 + 7.5 + 2
    file.write_text("won: {level1: {0.5: 3}}\n")  # nothing for what it does not name
    assert read_points(file, OPPONENTS).points(True, {"level1": 0.5, "level2": 1.0}) == 3


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("load: 3", "unknown key 'load'; known: loads, clean, won"),
        ("loads: many", "loads: 'many' is no number"),
        ("clean: true", "clean: True is no number"),
        ("loads: .nan", "loads: nan is no number"),
        ("won: 3", "won holds 3"),
        ("won: {level9: {0.5: 1}}", "'level9' is none of the opponents; allowed: level1, level2, each"),
        ("won: {level1: 20}", "won: level1 holds 20"),
        ("won: {level1: {50: 20}}", "won: level1: 50 is no share of the matches won; allowed: 0 to 1"),
        ("won: {level1: {half: 20}}", "won: level1: 'half' is no number"),
        ("won: {level1: {0.5: 20, 0.5: 3}}", "0.5 is set twice"),
        ("- 3", "the file holds [3]"),
    ],
)
def test_mistakes_name_the_file_and_the_place(tmp_path, text, part):
    file = tmp_path / "points.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as told:
        read_points(file, OPPONENTS)
    assert str(file) in str(told.value)
    assert part in str(told.value)

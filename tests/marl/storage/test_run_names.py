"""Short names of runs: `last`, numbers, names; paths and players go first."""

import json

import pytest

from marl.errors import UserError
from marl.storage.run_names import find_named, player_name


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Runs in the current folder; `old` was started last."""
    monkeypatch.chdir(tmp_path)
    for started, name in enumerate(["run1_20260101_120000", "run12_20260102_120000", "level3", "my_team", "old"]):
        folder = tmp_path / "runs" / "snakes_3v3" / name
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"started_unix": started}))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("last", "runs/snakes_3v3/old"),
        ("runs/last", "runs/snakes_3v3/old"),
        ("./runs/last/", "runs/snakes_3v3/old"),
        ("last/checkpoints/best", "runs/snakes_3v3/old/checkpoints/best"),
        ("run1", "runs/snakes_3v3/run1_20260101_120000"),
        ("run12/checkpoints", "runs/snakes_3v3/run12_20260102_120000/checkpoints"),
        ("run1_20260101_120000", "runs/snakes_3v3/run1_20260101_120000"),
        ("runs/snakes_3v3/old/checkpoints/last", "runs/snakes_3v3/old/checkpoints/last"),
        ("run2", "run2"),
        ("nothing", "nothing"),
        ("ol", "ol"),
        ("my", "my"),  # only of a number the rest may be left out
        ("my_team", "runs/snakes_3v3/my_team"),
    ],
)
def test_names(runs, text, meant):
    assert find_named(text).as_posix() == meant


def test_a_path_that_exists_goes_first(runs):
    (runs / "last").mkdir()
    assert find_named("last").as_posix() == "last"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("old", "runs/snakes_3v3/old"),
        ("plan:last", "plan:runs/snakes_3v3/old"),
        ("plan=8x6:run1", "plan=8x6:runs/snakes_3v3/run1_20260101_120000"),
        ("level3", "level3"),  # a player, though a run has this name
        ("level3:0.2", "level3:0.2"),
        ("champion", "champion"),
    ],
)
def test_players(runs, name, meant):
    assert player_name(name) == meant


def test_last_without_any_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="last: there is no run in runs/snakes_3v3 yet"):
        find_named("last")

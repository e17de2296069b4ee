"""Players found in folders: what is one, how it is called, and what is told of the rest."""

import os
from pathlib import Path

import pytest

from marl.commands.player_folders import NOTHING, entries_of
from marl.errors import UserError
from opponents.league_entries import Entry


def make(folder: Path, *files: str) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def found(entries: list[Entry], folder: Path) -> dict[str, str]:
    """Label -> path below the folder, or the problem."""
    return {e.label: e.problem or os.path.relpath(e.name, folder) for e in entries}


def test_every_kind_of_player_is_found_under_the_name_of_its_folder(tmp_path):
    make(
        tmp_path,
        "李四/submission.py",
        "李四/weights.safetensors",  # belongs to the submission
        "a run/config.yaml",
        "a run/checkpoints/episode_4/manifest.json",
        "checkpoint/manifest.json",
        "exported/team.safetensors",
        "two/one.safetensors",
        "two/other.safetensors",
        "deep/er/still/submission.py",
        ".git/submission.py",
        "__MACOSX/submission.py",
        "nothing/readme.txt",
        "notes.txt",
    )
    assert found(entries_of([], [tmp_path]), tmp_path) == {
        "a run": "a run",
        "checkpoint": "checkpoint",
        "still": "deep/er/still",
        "exported": "exported/team.safetensors",
        "nothing": NOTHING,
        "one": "two/one.safetensors",
        "other": "two/other.safetensors",
        "李四": "李四",
    }


def test_labels_differ_from_each_other_and_from_the_named_players(tmp_path):
    make(tmp_path, "a/hw/submission.py", "b/hw/submission.py", "level1/submission.py", "c/submission.py")
    entries = entries_of(["level1"], [tmp_path])
    assert entries[0] == Entry("level1")
    assert [e.label for e in entries[1:]] == ["a/hw", "b/hw", "c", f"{tmp_path.name}/level1"]


def test_a_folder_that_is_given_twice_plays_once(tmp_path):
    make(tmp_path, "a/submission.py", "b/submission.py")
    assert [e.label for e in entries_of([], [tmp_path, tmp_path / "a" / ".."])] == ["a", "b"]
    (tmp_path / "c").symlink_to(tmp_path / "a")  # another student's
    assert [e.label for e in entries_of([], [tmp_path])] == ["a", "b", "c"]


def test_the_folder_itself_may_hold_a_submission_and_a_run_its_checkpoints(tmp_path):
    make(tmp_path, "mine/submission.py", "run/checkpoints/episode_2/manifest.json", "run/checkpoints/last")
    assert [e.label for e in entries_of([], [tmp_path / "mine"])] == ["mine"]
    assert [e.label for e in entries_of([], [tmp_path / "run"])] == ["episode_2"]


def test_what_lies_beside_the_submission_in_the_folder_itself_belongs_to_it(tmp_path):
    make(tmp_path, "mine/submission.py", "mine/weights.safetensors", "mine/other.safetensors")
    assert found(entries_of([], [tmp_path / "mine"]), tmp_path) == {"mine": "mine/submission.py"}


def test_patterns_and_folders_among_the_names(tmp_path, monkeypatch):
    make(tmp_path, "hw/a/submission.py", "hw/李四/submission.py", "hw/notes.txt", "hw/empty/x")
    monkeypatch.chdir(tmp_path)
    expected = {"a": "hw/a", "李四": "hw/李四", "empty": NOTHING}
    no_player = {"notes.txt": "it is no submission.py and no .safetensors"}
    assert found(entries_of(["hw/*"]), tmp_path) == expected | no_player
    words = sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "hw").iterdir())
    assert found(entries_of(words, are_several_words=True), tmp_path) == expected | no_player
    assert [e.label for e in entries_of(["hw"])] == ["a", "李四"]
    assert entries_of(["hw/a", "level2"]) == [Entry("hw/a"), Entry("level2")]  # named: errors are the user's
    with pytest.raises(UserError, match=r"'hw/z\*': no file or folder matches"):
        entries_of(["hw/z*"])


def test_a_folder_without_players_is_a_mistake(tmp_path):
    with pytest.raises(UserError, match="there is no such folder"):
        entries_of([], [tmp_path / "no"])
    with pytest.raises(UserError, match="nor in its subfolders"):
        entries_of([], [tmp_path])


def test_a_folder_that_may_not_be_read_is_one_without_a_player(tmp_path, monkeypatch):
    """The others are graded."""
    make(tmp_path, "a/submission.py", "locked/deep/submission.py")
    listed = Path.iterdir

    def refuse(path: Path):
        if path.name == "locked":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert found(entries_of([], [tmp_path]), tmp_path) == {"a": "a", "locked": NOTHING}

"""The canvas of all pictures: how they are saved."""

import os

import pytest
from PIL import Image

from arena.errors import ArenaError
from marl.pictures.canvas import PAPER, save_png

PICTURE = Image.new("RGB", (4, 3), PAPER)


def test_a_picture_is_a_png_whatever_its_name(tmp_path) -> None:
    save_png(tmp_path / "picture.txt", PICTURE)
    with Image.open(tmp_path / "picture.txt") as image:
        assert (image.format, image.size) == ("PNG", (4, 3))
    assert os.listdir(tmp_path) == ["picture.txt"]


def test_a_picture_that_cannot_be_written_is_told_in_one_line(tmp_path) -> None:
    (tmp_path / "folder").mkdir()
    for path, problem in ((tmp_path / "folder", "Is a directory"), (tmp_path / "no" / "x.png", "No such file")):
        with pytest.raises(ArenaError, match=problem) as error:
            save_png(path, PICTURE)
        assert str(error.value).startswith(f"{path}: cannot be written: ")
    assert os.listdir(tmp_path) == ["folder"]


def test_a_failure_leaves_the_old_picture(tmp_path, monkeypatch) -> None:
    save_png(tmp_path / "x.png", PICTURE)
    before = (tmp_path / "x.png").read_bytes()

    def half(file, *_, **__) -> None:
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(ArenaError, match="No space left"):
        save_png(tmp_path / "x.png", type("Half", (), {"save": staticmethod(half)})())
    assert (tmp_path / "x.png").read_bytes() == before
    assert os.listdir(tmp_path) == ["x.png"]

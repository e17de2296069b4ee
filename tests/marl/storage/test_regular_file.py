"""Files that must be regular ones."""

import os

import pytest

from marl.storage.regular_file import read_regular, read_with_time


def test_a_regular_file_is_read_also_through_a_link(tmp_path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"text")
    os.utime(file, (5, 5))
    (tmp_path / "b").symlink_to(file)
    assert read_regular(tmp_path / "b") == b"text"
    assert read_with_time(file) == (b"text", 5_000_000_000)


def test_nothing_else_is(tmp_path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, "/dev/zero", tmp_path / "missing"):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory|No such file"):
            read_regular(path)

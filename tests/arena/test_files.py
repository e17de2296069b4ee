"""Files are written whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from arena import files, system
from arena.errors import ArenaError
from arena.files import atomic_path, write_atomically, write_user_file


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    for data in (b"long content", b"short", b""):
        write_atomically(tmp_path / "file", data)
        assert (tmp_path / "file").read_bytes() == data
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path: Path, monkeypatch, call: str) -> None:
    write_atomically(tmp_path / "file", b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "file", b"new")
    with pytest.raises(ArenaError, match=r"file: cannot be written: No space left on device$"):
        write_user_file(tmp_path / "file", "new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_no_draft(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with atomic_path(tmp_path / "file") as draft:
            draft.write_bytes(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert os.listdir(tmp_path) == []


def test_the_content_is_synced_before_the_rename_and_the_folder_after_it(tmp_path: Path, monkeypatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        calls.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        fsync(handle)

    def replaced(draft: Path, path: Path) -> None:
        calls.append("rename")
        replace(draft, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_atomically(tmp_path / "file", b"content")
    assert calls == [f".file.{os.getpid()}.part", "rename", tmp_path.name]


def test_a_file_system_that_cannot_sync_folders_will_do(tmp_path: Path, monkeypatch) -> None:
    fsync = os.fsync

    def files_only(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", files_only)
    write_atomically(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_folder_that_cannot_be_opened_will_do(tmp_path: Path, monkeypatch) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    write_atomically(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.parametrize("name", ["", ".", "none/file", "a\0b"])
def test_a_name_that_cannot_be_written_is_told_in_one_line(tmp_path: Path, monkeypatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArenaError, match="cannot be written"):
        write_user_file(name, b"content")
    assert os.listdir(tmp_path) == []


def test_text_is_written_as_utf8(tmp_path: Path) -> None:
    write_user_file(tmp_path / "file", "名前\n")
    assert (tmp_path / "file").read_bytes() == "名前\n".encode()
    with pytest.raises(ArenaError, match="cannot be written"):
        write_user_file(tmp_path / "file", "\ud800")


def test_a_reader_is_waited_for_where_open_files_cannot_be_replaced(tmp_path: Path, monkeypatch) -> None:
    calls, real = [], os.replace

    def replace_later(source, target):
        calls.append(target)
        if len(calls) < 3:
            raise PermissionError(errno.EACCES, "The process cannot access the file", str(target))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace_later)
    with pytest.raises(PermissionError):
        write_atomically(tmp_path / "file", b"new")
    assert len(calls) == 1
    monkeypatch.setattr(system, "REPLACES_OPEN_FILES", False)
    write_atomically(tmp_path / "file", b"new")
    assert len(calls) == 3
    assert (tmp_path / "file").read_bytes() == b"new"
    calls.clear()
    monkeypatch.setattr(files, "OPEN_SECONDS", 0.0)
    with pytest.raises(PermissionError):  # somebody does not let go of it
        write_atomically(tmp_path / "file", b"newer")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

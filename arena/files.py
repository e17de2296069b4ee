"""Files that are written whole or not at all: first under a hidden name beside the target, then renamed."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arena import system
from arena.errors import ArenaError

OPEN_SECONDS = 10.0  # that a reader may keep a file open
POLL_SECONDS = 0.02


@contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a hidden path in the folder of `path`; when the block succeeds, its file is synced and takes that name.

    Whenever the machine stops, `path` holds either the old content or the new. If the block fails, the hidden file is
    removed and `path` stays as it was.
    """
    path = Path(path)
    draft = _draft(path)
    try:
        yield draft
        with open(draft, "r+b") as file:
            os.fsync(file.fileno())
        replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace(source: Path, target: Path) -> None:
    """Give a file or folder another name, in place of what has that name now; OSError if that fails.

    Where files that are open cannot be replaced, somebody who reads one is waited for.
    """
    deadline = time.monotonic() + (0.0 if system.REPLACES_OPEN_FILES else OPEN_SECONDS)
    while True:
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_SECONDS)


def _draft(path: Path) -> Path:
    """The hidden path beside a file. In the same folder, because a rename cannot cross file systems."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def write_atomically(path: str | os.PathLike, data: bytes) -> None:
    """Replace a file as a whole; OSError if that fails."""
    with atomic_path(path) as draft:
        draft.write_bytes(data)


def write_user_file(path: str | os.PathLike, content: str | bytes) -> None:
    """Replace a file that the user has named; ArenaError, in one line, if that fails. Text is written as UTF-8."""
    try:
        write_atomically(path, content.encode() if isinstance(content, str) else content)
    except (OSError, ValueError) as error:  # ValueError: no file name, a zero byte in it, or text that is not Unicode
        raise cannot_write(path, error) from None


def check_writable(path: str | os.PathLike) -> None:
    """ArenaError, in one line, if a file that the user has named cannot be written: tries with an empty draft."""
    try:
        draft = _draft(Path(path))
        draft.touch()
        draft.unlink()
    except (OSError, ValueError) as error:
        raise cannot_write(path, error) from None


def cannot_write(path: str | os.PathLike, error: Exception) -> ArenaError:
    """The one-line error for a file that the user has named."""
    return ArenaError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where the file system can do that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder that may be written but not read; every folder on Windows
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(handle)

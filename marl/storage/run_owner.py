"""The owner of a run folder: the one process (rank 0) that writes to it. A second start is refused while it lives.

    <run>/owner.<N>.json      host, process id and start time of the owner, and its launchers

The owner touches its file every HEARTBEAT_SECONDS and removes it at its end. A killed owner leaves its file; the next
start takes the folder over, once it knows that the owner is dead:

- On the same machine by process id and start time, at once.
- On another machine by the file's time of modification: if it does not change for LEASE_SECONDS, the owner is
  dead. Only changes count, so clocks that jump or differ do not matter.

No file locks: network drives often have none. A new file comes by a hard link, which only one of several processes can
make, under the number after that of the dead owner. After that the process looks again, and gives way if any other file
has come that is not of a dead owner: of two that start at once, at least the later one sees the other.

No torch at import: a start that is refused is told at once.
"""

import contextlib
import json
import os
import random
import re
import socket
import sys
import threading
import time
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from marl.cli.wording import in_one_line
from marl.compute.process_identity import is_running, pid_namespace, process_name
from marl.errors import UserError
from marl.ranks.exits import exit_now
from marl.storage.run_folder import read_regular, read_with_time

HEARTBEAT_SECONDS = 5.0  # seconds between two touches of the owner's file
LEASE_SECONDS = 30.0  # seconds without a touch after which an owner on another machine is dead
GRACE_SECONDS = 5.0  # seconds that a living owner on this machine has to end: a killed process frees its memory first
RELAUNCH_GRACE_SECONDS = 60.0  # the same for an earlier start of the same launch, which its launcher is ending
POLL_SECONDS = 0.1
TRIES = 20  # of starts at the same moment

_NAME = re.compile(r"owner\.(\d{1,9})\.json")
_DRAFT = re.compile(r"\..+\.part")  # of this module, and of files that were being written: arena/files.py


class _Holder(NamedTuple):
    """What an owner's file says. Empty fields: the file cannot be read, or is damaged."""

    content: bytes = b""
    process: str = ""  # see process_identity.py
    pid_namespace: str = ""  # process ids of another container mean nothing here
    launchers: tuple[str, ...] = ()
    since: str = ""

    def is_alive(self, launch: Collection[str]) -> bool | None:
        """Whether the owner, or a launcher that may start it again, runs on this machine; None if it is another one."""
        host, boot = (*self.process.split(" "), "", "")[:2]
        here, this_boot = process_name(os.getpid()).split(" ")[:2]
        if not boot or (host, boot, self.pid_namespace) != (here, this_boot, pid_namespace()):
            return None
        names = [self.process] if self.belongs_to(launch) else [self.process, *self.launchers]
        return any(is_running(name) for name in names)

    def belongs_to(self, launch: Collection[str]) -> bool:
        return not set(launch).isdisjoint(self.launchers)

    def describe(self) -> str:
        host, _, pid, _ = (*self.process.split(" "), "", "", "", "")[:4]
        text = f"process {pid or '?'} on {host or 'an unknown host'}" + (f", since {self.since}" if self.since else "")
        return in_one_line(text[:200])


class RunOwner:
    """Holds a run folder for this process from `take` to `release`; a context manager that releases at its end."""

    def __init__(self) -> None:
        self._file: Path | None = None
        self._content = b""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "RunOwner":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def take(self, run: Path, launch: Collection[str] = ()) -> None:
        """Become the owner of the folder; UserError if a living process is. launch: names of this start's launchers.

        A folder that cannot be written stays without an owner: the first file of the run tells why.
        """
        if self._file is not None:
            return
        self._content = _describe(launch)
        with contextlib.suppress(OSError):
            self._file = _claim(run, self._content, launch)
            self._ended.clear()
            self._thread = threading.Thread(target=self._send_heartbeats, name="owner", daemon=True)
            self._thread.start()
            _remove_drafts(run)

    def release(self) -> None:
        """Give the folder back."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._file is not None:
            with contextlib.suppress(OSError):
                if read_regular(self._file) == self._content:
                    self._file.unlink()
        self._file = self._thread = None

    def _send_heartbeats(self) -> None:
        """Show that this process lives; end it if another one has taken the folder over, believing it dead."""
        while not self._ended.wait(HEARTBEAT_SECONDS):
            run, file = self._file.parent, self._file
            with contextlib.suppress(OSError):  # a network drive that is away for a while
                others = [each for each in _files(run) if each != file]
                if (file.exists() and read_regular(file) != self._content) or (others and not file.exists()):
                    taker = _read(others[-1] if others else file)
                    exit_now(f"{run} was taken over by {taker.describe()}, after this process stood still")
                if file.exists():
                    os.utime(file)
                elif run.is_dir():
                    _create(file, self._content)  # somebody has removed it


def check_free(run: Path) -> None:
    """UserError if a living process of this machine holds the folder. Waits for one that is about to end.

    Owners on other machines are left to `take`, which watches them for a while.
    """
    for file in _files(run):
        if _read(file).is_alive(()):
            _wait_for_end(file, ())


def _claim(run: Path, content: bytes, launch: Collection[str]) -> Path:
    for _ in range(TRIES):
        dead = {file: _wait_for_end(file, launch) for file in _files(run)}
        number = max(map(_number, dead), default=0) + 1
        mine = run / f"owner.{number}.json"
        if not _create(mine, content):
            continue
        if all(dead.get(file) == _read(file).content for file in _files(run) if file != mine):
            for file in dead:
                with contextlib.suppress(OSError):
                    file.unlink()
            return mine
        mine.unlink(missing_ok=True)
        time.sleep(random.uniform(POLL_SECONDS, 3 * POLL_SECONDS))
    raise UserError(f"{run} is being taken by another start at this moment; try again")


def _wait_for_end(file: Path, launch: Collection[str]) -> bytes:
    """Wait a little for the end of the owner that the file names; UserError if it lives on. Returns the content."""
    holder, is_reported = _read(file), False
    deadline = time.monotonic() + (RELAUNCH_GRACE_SECONDS if holder.belongs_to(launch) else GRACE_SECONDS)
    while True:
        alive = holder.is_alive(launch)
        if alive is None and not is_reported:
            seconds = f"up to {LEASE_SECONDS:g} s"
            print(f"snakes: waiting {seconds}: does {holder.describe()} still train {file.parent}?", file=sys.stderr)
            is_reported = True
        if not (_is_touched(file) if alive is None else alive):
            return holder.content
        if time.monotonic() > deadline:
            raise UserError(
                f"{file.parent} is in use by {holder.describe()}; stop that training first, or start another run with "
                "--run_name"
            )
        time.sleep(POLL_SECONDS)


def _is_touched(file: Path) -> bool:
    """Whether the file is modified or replaced in the next LEASE_SECONDS; no more of a file that is removed."""
    try:
        before = read_with_time(file)
        deadline = time.monotonic() + LEASE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            if read_with_time(file) != before:
                return True
    except OSError:
        pass
    return False


def _create(file: Path, content: bytes) -> bool:
    """Make the file with this content, unless it exists; returns whether this process has made it."""
    draft = file.with_name(f".owner.{uuid.uuid4().hex}.part")
    try:
        with open(draft, "xb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, file)
        except FileNotFoundError:  # an owner has cleared up
            return False
        except OSError:
            if file.exists() or file.is_symlink():
                # The answer of a network drive may be lost: the link counts, not the error. The draft may be gone.
                return _read(file).content == content
            return _create_without_link(file, content)
        return True
    finally:
        draft.unlink(missing_ok=True)


def _create_without_link(file: Path, content: bytes) -> bool:
    """For drives without hard links."""
    try:
        with open(file, "xb") as out:
            out.write(content)
    except FileExistsError:
        return False
    return True


def _describe(launch: Collection[str]) -> bytes:
    fields: dict[str, Any] = {
        "process": process_name(os.getpid(), unknown_start=uuid.uuid4().hex),
        "pid_namespace": pid_namespace(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "launchers": sorted(launch),
        "id": uuid.uuid4().hex,
    }
    return (json.dumps(fields, indent=2) + "\n").encode()


def _read(file: Path) -> _Holder:
    try:
        content = read_regular(file)
    except OSError:
        return _Holder()
    try:
        fields = json.loads(content)
        process, namespace, since = (str(fields[name]) for name in ("process", "pid_namespace", "since"))
        return _Holder(content, process, namespace, tuple(map(str, fields["launchers"])), since)
    except Exception:  # of any kind that a file of a stranger brings about
        return _Holder(content)


def _files(run: Path) -> list[Path]:
    """The owners' files of a run, the newest last."""
    return sorted((run / name for name in _names(run) if _NAME.fullmatch(name)), key=_number)


def _remove_drafts(run: Path) -> None:
    """Remove files that a killed owner has not finished, in the run's folder and in the folders in it."""
    for folder in (run, *(run / name for name in _names(run) if not (run / name).is_symlink())):
        for name in _names(folder):
            if _DRAFT.fullmatch(name):
                with contextlib.suppress(OSError):
                    (folder / name).unlink()


def _names(folder: Path) -> Iterator[str]:
    try:
        yield from os.listdir(folder)
    except OSError:
        return


def _number(file: Path) -> int:
    found = _NAME.fullmatch(file.name)
    return int(found[1]) if found else 0

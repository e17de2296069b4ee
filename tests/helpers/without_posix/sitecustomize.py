"""Takes away what Windows' Python does not have, from a Python that starts with this folder on its PYTHONPATH.

Python imports a module of this name before anything else, in every process that inherits the variable. Gone for our
packages: functions and modules of POSIX, their signals and sockets; libraries, which know on which system they are,
keep them. Gone for all: /proc and /dev/shm, links, folders that can be opened. Text files without an encoding are cp936
with \\r\\n, and no file that this process has open can be replaced or removed.
"""

import builtins
import ctypes
import errno
import functools
import io
import os
import pathlib
import select
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

ENCODING = "cp936"
ROOT = Path(__file__).resolve().parents[3]
OURS = tuple(f"{ROOT / package}{os.sep}" for package in ("arena", "opponents", "marl"))
HIDDEN_FOLDERS = ("/proc", "/dev/shm", "/sys")
MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
NAMES = {
    os: (
        "chroot", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getloadavg", "getpgid",
        "getsid", "getuid", "killpg", "memfd_create", "mkfifo", "nice", "pidfd_open", "posix_fallocate", "posix_spawn",
        "pread", "sched_getaffinity", "sched_setaffinity", "setsid", "statvfs", "sysconf", "uname",
        "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH",
    ),
    signal: ("SIGALRM", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "alarm", "pthread_sigmask", "setitimer"),
    socket: ("AF_UNIX", "CMSG_LEN", "CMSG_SPACE", "SCM_CREDENTIALS", "SO_PASSCRED", "recv_fds", "send_fds"),
    select: ("epoll", "poll"),
    selectors: ("EpollSelector", "PollSelector"),
    time: ("clock_gettime", "clock_getres"),
}  # fmt: skip

is_folder, links_of, real_folder = os.path.isdir, os.listdir, os.path.realpath
read_link, make_open, make_os_open = os.readlink, io.open, os.open


def hide() -> None:
    for module, names in NAMES.items():
        kept = {name: vars(module).pop(name) for name in names if hasattr(module, name)}
        module.__getattr__ = functools.partial(_attribute, module.__name__, kept)
    receive = socket.socket.recvmsg
    socket.socket.recvmsg = property(lambda self: _attribute("socket", {"recvmsg": receive.__get__(self)}, "recvmsg"))
    builtins.__import__ = functools.partial(_import, builtins.__import__)
    ctypes.CDLL.__init__ = functools.partialmethod(_load_library, ctypes.CDLL.__init__)
    os.symlink = _refuse_link
    os.open = functools.wraps(make_os_open)(_open_number)
    io.open = builtins.open = functools.wraps(make_open)(_open_text)
    for name in ("stat", "lstat", "listdir", "scandir", "readlink", "access"):
        setattr(os, name, _without_hidden(getattr(os, name)))
    for name in ("replace", "rename", "unlink", "remove", "rmdir"):
        setattr(os, name, _without_open_files(getattr(os, name)))
    if hasattr(pathlib, "_NormalAccessor"):  # Python 3.10 keeps the functions of os that it found at its start
        for name in ("stat", "listdir", "scandir", "readlink", "replace", "rename", "unlink", "rmdir", "symlink"):
            setattr(pathlib._NormalAccessor, name, staticmethod(getattr(os, name)))
        pathlib._NormalAccessor.open = staticmethod(io.open)
    shutil._use_fd_functions = False
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile


def _is_ours(depth: int) -> bool:
    """Whether the function so many calls above the caller is of our packages."""
    return sys._getframe(depth + 1).f_code.co_filename.startswith(OURS)


def _attribute(module: str, kept: dict, name: str):
    if name not in kept or _is_ours(1 if name != "recvmsg" else 2):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return kept[name]


def _import(real, name, *rest, **named):
    if name in MODULES and _is_ours(1):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real(name, *rest, **named)


def _load_library(self, real, name, *rest, **named):
    if name is None and sys._getframe(1).f_code.co_filename.startswith(OURS):  # libc, and with it prctl
        raise TypeError("LoadLibrary() argument 1 must be str, not None")
    return real(self, name, *rest, **named)


def _refuse_link(source, target, *_, **__):
    raise OSError(errno.EPERM, "A required privilege is not held by the client", os.fspath(target))


def _is_hidden(path) -> bool:
    if not isinstance(path, (str, os.PathLike)):
        return False
    path = os.fspath(path)
    return any(path == folder or path.startswith(folder + "/") for folder in HIDDEN_FOLDERS)


def _open_number(path, flags, *rest, **named):
    if _is_hidden(path):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
    if is_folder(path):
        raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
    return make_os_open(path, flags, *rest, **named)


def _open_text(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    if _is_hidden(file):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", file)
    if "b" not in mode:
        encoding = ENCODING if encoding in (None, "locale") else encoding
        newline = "\r\n" if newline is None and set("wax") & set(mode) else newline
    return make_open(file, mode, buffering, encoding, errors, newline, closefd, opener)


def _without_hidden(function):
    @functools.wraps(function)
    def call(path=".", *rest, **named):
        if _is_hidden(path):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return function(path, *rest, **named)

    return call


def _without_open_files(function):
    @functools.wraps(function)
    def call(*paths, **named):
        held = _open_files()
        for path in paths:
            whole = os.path.join(real_folder(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
            for file in held:
                if file == whole or file.startswith(whole + "/"):
                    raise PermissionError(errno.EACCES, f"{file} is open in this process", os.fspath(path))
        return function(*paths, **named)

    return call


def _open_files() -> set[str]:
    """What this process has open, or mapped to its memory."""
    found = set()
    for number in links_of("/proc/self/fd"):
        try:
            found.add(read_link(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # that of the list itself
    with make_open("/proc/self/maps", "rb") as maps:
        found |= {os.fsdecode(words[5].strip()) for line in maps if len(words := line.split(None, 5)) == 6}
    return found


hide()

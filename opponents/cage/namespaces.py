"""Linux namespaces through libc: an own view of users, files, processes, network, for the calling process.

`enter` makes the process 1 of new namespaces; `change_root` gives it a root folder with a few read-only folders of the
machine; `mount_scratch` gives one process a private scratch folder; `drop_capabilities` makes all of that final.
"""

import ctypes
import os
import signal
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

SUBMISSION_FOLDER = "/submission"  # where the cage shows the submission's folder
SCRATCH = "/scratch"
SCRATCH_BYTES = 64 << 20
SCRATCH_FILES = 1024
USER = 1000  # the user id inside; outside it is the id of whoever started the program

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_PRIVATE, MS_RELATIME = 1024, 2048, 4096, 16384, 1 << 18, 1 << 21
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITIES = 64  # Linux has 41; the loop ends at the first unknown one
CAPABILITY_VERSION = 0x20080522
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}  # libc has no function for it

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")  # packages read them to choose code and threads
LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache")
ALTERNATIVES = "/etc/alternatives"  # Debian's links to the chosen BLAS
PACKAGES = ("site-packages", "dist-packages")

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """Call a function of libc; OSError with the function's name if it fails."""
    result = getattr(_libc, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int = 0) -> None:
    """Linux's prctl with one argument."""
    zero = ctypes.c_ulong(0)
    call("prctl", option, ctypes.c_ulong(value), zero, zero, zero)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Linux's mount; OSError names the target."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    try:
        call("mount", words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} ({target})") from None


def enter() -> None:
    """Return in a child that is process 1 of new namespaces; the caller waits for it and ends as it ended.

    The child and all processes in its namespaces end together with the caller.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        call("unshare", CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)
    except OSError as error:
        raise OSError(error.errno, f"user namespaces are not allowed: {error.strerror}") from None
    for name, text in (("setgroups", "deny"), ("uid_map", f"{USER} {user} 1"), ("gid_map", f"{USER} {group} 1")):
        Path("/proc/self", name).write_text(text)
    child = os.fork()
    if child:
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))  # the arena sees the end of the child at once
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 255)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def change_root(submission_folder: str) -> None:
    """Replace all files in sight: Python, its packages and the submission's folder, all read-only."""
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    shown = {path: path for path in _outermost(readable_paths())} | {submission_folder: SUBMISSION_FOLDER}
    # The sources are opened before the new root covers a folder; a link to the open file names them after that.
    sources = {target: os.open(source, os.O_PATH | os.O_CLOEXEC) for source, target in shown.items()}
    # A folder that is covered can no longer be shown, so it is not the submission's.
    folders = (folder for folder in ("/tmp", "/mnt", "/run") if os.path.isdir(folder))
    root = next(folder for folder in folders if not os.path.samefile(folder, submission_folder))
    links = {link: os.readlink(link) for link in LIBRARIES if os.path.islink(link)}
    mount("tmpfs", root, "tmpfs", MS_NOSUID, f"size=1m,nr_inodes={SCRATCH_FILES},mode=755")
    for target, source in sources.items():
        _bind(source, root + target)
        os.close(source)
    for link, target in links.items():
        with suppress(FileExistsError):
            os.symlink(target, root + link)
    os.mkdir(root + SCRATCH)
    for link in ("/tmp", "/dev/shm"):
        with suppress(FileExistsError):  # /tmp is a folder where Python is installed below it
            os.symlink(SCRATCH, root + link)
    os.chdir(root)
    call("syscall", PIVOT_ROOT[os.uname().machine], b".", b".")
    call("umount2", b".", MNT_DETACH)  # the old root lay on top of the new one
    mount(None, "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID)
    os.chdir("/")


def readable_paths() -> Iterable[str]:
    """What Python and its packages need: libraries, modules, devices without memory, facts about the processor."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    libraries = [os.path.join(prefix, name) for prefix in prefixes for name in ("lib", "lib64")]
    modules = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    packages = [path for path in sys.path if os.path.basename(path) in PACKAGES]
    linked = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for path in (*LIBRARIES, ALTERNATIVES, *DEVICES, *FACTS, *libraries, *modules, *packages, *linked):
        if os.path.isabs(path) and path != "/" and os.path.exists(path) and path not in _links():
            yield os.path.normpath(path)


def _links() -> set[str]:
    return {path for path in LIBRARIES if os.path.islink(path)}


def _outermost(paths: Iterable[str]) -> list[str]:
    """The paths without those that lie in another one."""
    found: list[str] = []
    for path in sorted(set(paths)):
        if not any(path.startswith(outer + "/") for outer in found):
            found.append(path)
    return found


def _bind(source: int, target: str) -> None:
    """Show an open file or folder at the target, read-only, with all that is mounted in it."""
    link = f"/proc/self/fd/{source}"
    if os.path.isdir(link):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    mount(link, target, None, MS_BIND | MS_REC)
    for point in _mounts_in(target):
        mount(None, point, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | _kept_flags(point))


def _mounts_in(folder: str) -> list[str]:
    """The mounts at a folder and below it."""
    folder = os.path.realpath(folder)
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    # Spaces and the like are written as octal numbers: \040.
    points = [os.fsdecode(line.split()[4].decode("unicode_escape").encode("latin-1")) for line in lines]
    return [point for point in points if point == folder or point.startswith(folder + "/")]


def _kept_flags(point: str) -> int:
    """The flags of a mount that a user namespace may not take away."""
    flags = os.statvfs(point).f_flag
    pairs = [(os.ST_NODEV, MS_NODEV), (os.ST_NOEXEC, MS_NOEXEC), (os.ST_NOATIME, MS_NOATIME)]
    pairs += [(os.ST_NODIRATIME, MS_NODIRATIME), (os.ST_RELATIME, MS_RELATIME)]
    return sum(of_mount for of_file_system, of_mount in pairs if flags & of_file_system)


def mount_scratch() -> None:
    """Give the calling process, one of the cage, a scratch folder of its own in memory."""
    call("unshare", CLONE_NEWNS)
    limits = f"size={SCRATCH_BYTES},nr_inodes={SCRATCH_FILES},mode=700"
    mount("tmpfs", SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, limits)


def drop_capabilities() -> None:
    """Give up every right of the namespaces' owner, and the way to get one back."""
    for capability in range(CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break
    with suppress(OSError):
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    call("capset", header, (ctypes.c_uint32 * 6)())

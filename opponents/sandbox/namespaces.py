"""Linux namespaces through libc: an own view of users, files, processes, network, for the calling process.

`enter` makes the process 1 of new namespaces; `change_root` gives it a root folder with a few read-only folders of the
machine; `lock_mounts` makes that root final, by a second user namespace that does not own the mounts it sees;
`mount_scratch` gives one process a private scratch folder; `keep_capabilities` gives up the rights over all of that.
"""

import ctypes
import os
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from opponents.processes import PR_SET_NO_NEW_PRIVS, call, prctl

SUBMISSION_FOLDER = "/submission"  # where the sandbox shows the submission's folder
SCRATCH = "/scratch"
SCRATCH_BYTES = 64 << 20
SCRATCH_FILES = 1024
USER = 1000  # the user id inside; outside it is the id of the user who started the program
# Linux limits no thread of its user 0. If root started the program, the real user of the sandbox is another one, which
# owns nothing; files are still opened as USER.
COUNTED_USER, COUNTED_USER_OUTSIDE = 1001, 65533

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_PRIVATE, MS_RELATIME = 1024, 2048, 4096, 16384, 1 << 18, 1 << 21
MNT_DETACH = 2
PR_CAPBSET_DROP = 24
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITIES = 64  # Linux has 41; the loop ends at the first unknown one
CAPABILITY_VERSION = 0x20080522
CAP_SYS_ADMIN = 21
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}  # libc has no function for it

# No /dev/zero: a shared mapping of it is memory that no limit counts.
DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")
FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")  # packages read them to choose code and threads
LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache")
ALTERNATIVES = "/etc/alternatives"  # Debian's links to the chosen BLAS
PACKAGES = ("site-packages", "dist-packages")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Linux's mount; OSError names the target."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    try:
        call("mount", words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} ({target})") from None


def enter() -> None:
    """Move to new namespaces; the next child of this process is process 1 there."""
    users = [(USER, os.geteuid()), (COUNTED_USER, COUNTED_USER_OUTSIDE)]
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    description = describe_itself()
    _new_user_namespace(flags, users if os.geteuid() == 0 else users[:1], os.getegid(), description)
    os.close(description)


def describe_itself() -> int:
    """This process's folder of /proc, open, for `lock_mounts`; inside the sandbox there is no /proc."""
    return os.open("/proc/self", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def lock_mounts(description: int) -> None:
    """Move to a second user namespace with a copy of all mounts, none of which can be changed or taken away there."""
    users = [(USER, USER)]
    with suppress(OSError):  # there is none if root did not start the program
        os.setresuid(COUNTED_USER, USER, USER)
        users.append((COUNTED_USER, COUNTED_USER))
    _new_user_namespace(CLONE_NEWUSER | CLONE_NEWNS, users, USER, description)


def _new_user_namespace(flags: int, users: list[tuple[int, int]], group: int, description: int) -> None:
    """unshare, with pairs of user ids inside and outside; only the first if there is no right to the others.

    A child that stays outside writes the tables of ids: the right to more than one id is lost inside.
    """
    waiting, go = os.pipe()
    outside = os.fork()
    if not outside:
        os.close(go)
        os._exit(_write_ids(users, group, description) if os.read(waiting, 1) else 0)
    os.close(waiting)
    try:
        call("unshare", flags)
        os.write(go, b"!")
    except OSError as error:
        raise OSError(error.errno, f"user namespaces are not allowed: {error.strerror}") from None
    finally:
        os.close(go)
        number = os.waitstatus_to_exitcode(os.waitpid(outside, 0)[1])
    if number:
        raise OSError(number, f"user namespaces are not allowed: ids: {os.strerror(number)}")


def _write_ids(users: list[tuple[int, int]], group: int, description: int) -> int:
    """Write the tables of ids of the described process; 0, or the number of an error."""
    tables = ["".join(f"{inside} {outside} 1\n" for inside, outside in users[:count]) for count in (len(users), 1)]
    try:
        _write_in(description, "setgroups", "deny")
        try:
            _write_in(description, "uid_map", tables[0])
        except OSError:
            _write_in(description, "uid_map", tables[1])
        _write_in(description, "gid_map", f"{USER} {group} 1\n")
    except OSError as error:
        return error.errno
    return 0


def _write_in(folder: int, name: str, text: str) -> None:
    file = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


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
    """Give the calling process, one of the sandbox, a scratch folder of its own in memory."""
    call("unshare", CLONE_NEWNS)
    limits = f"size={SCRATCH_BYTES},nr_inodes={SCRATCH_FILES},mode=700"
    mount("tmpfs", SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, limits)


def keep_capabilities(*kept: int) -> None:
    """Give up every right of the namespaces' owner but these, and the way to get one back."""
    for capability in range(CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:  # there are no more of them, or the right to drop them is gone with them
            break
    with suppress(OSError):
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    mask = sum(1 << capability for capability in kept)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    low = mask & 0xFFFFFFFF
    call("capset", header, (ctypes.c_uint32 * 6)(low, low, 0, mask >> 32, mask >> 32, 0))

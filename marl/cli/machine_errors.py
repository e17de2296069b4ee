"""Errors of the machine rather than of the program (disk, memory, limits), each in one line with what to do."""

import errno
import mmap
import os

from marl.errors import UserError

ADVICE = {
    errno.ENOSPC: "free some space, or use another disk",
    errno.EDQUOT: "free some space, or ask for a larger quota",
    errno.EROFS: "use a folder that can be written to",
    errno.EACCES: "use a folder of yours, or ask its owner",
    errno.EPERM: "use a folder of yours, or ask its owner",
    errno.EMFILE: "raise the limit with `ulimit -n 1024`",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "free some memory, or make the run smaller (--matches, --buffer_size, --body)",
    errno.EAGAIN: "raise the limit of processes with `ulimit -u`, or end other programs",
    errno.EIO: "check the drive",
    errno.ESTALE: "check the network drive",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ELOOP: "remove the link that leads to itself",
}
# Parts of the messages of torch, Numba and the loader of libraries, in small letters, for errors that are no OSError.
LIBRARY_TEXTS = {
    **{os.strerror(number).lower(): number for number in (errno.ENOSPC, errno.EROFS, errno.EMFILE, errno.ENOMEM)},
    "can't allocate memory": errno.ENOMEM,
    "failed to map segment": errno.ENOMEM,
    "numba._devicearray failed to import": errno.ENOMEM,  # a part of Numba that could not be loaded; it hides why
    "can't start new thread": errno.EAGAIN,
}
# Address space that torch and Numba take, more than memory: below it C libraries end the process, each in its own way.
ADDRESS_SPACE = 3 << 30
WINDOWS_PATH = 248  # letters; a longer path of a folder, and soon one of a file, is refused unless switched on
NO_HOME = "home directory"  # of Python's pathlib, for a user id without a name (containers)
NO_TEMPORARY_FOLDER = "No usable temporary directory"  # of Python's tempfile


def check_address_space() -> None:
    """UserError if a limit on the address space (`ulimit -v`) is too small for torch and Numba to be loaded."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE:
        need = f"{ADDRESS_SPACE >> 30} GiB are needed"
        raise UserError(f"the address space is limited to {limit >> 20:,} MiB, {need}; raise it: `ulimit -v unlimited`")


def describe(error: BaseException) -> str | None:
    """The line for an error of the machine; None for any other error, which may be a mistake in the program."""
    if isinstance(error, MemoryError):
        return f"{os.strerror(errno.ENOMEM)}; {ADVICE[errno.ENOMEM]}"
    if isinstance(error, OSError):
        if NO_TEMPORARY_FOLDER in str(error):
            return "no temporary folder can be written to; set TMPDIR to a folder that can"
        if not hasattr(os, "fork") and len(str(error.filename or "")) >= WINDOWS_PATH:
            return f"{error.filename}: {error.strerror}; use a shorter folder, or switch on long paths in Windows"
        advice = ADVICE.get(error.errno or 0)
        if advice is not None:
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror}; {advice}"
    if isinstance(error, RuntimeError | ImportError):
        text = str(error).lower()
        if NO_HOME in text:
            return "this user has no home folder; set HOME, or NUMBA_CACHE_DIR and XDG_CACHE_HOME"
        number = next((number for part, number in LIBRARY_TEXTS.items() if part in text), None)
        if number is not None:
            return f"{os.strerror(number)}; {ADVICE[number]}"
    if _is_memory_short():  # libraries that cannot be loaded or started fail in any way, llvmlite by a SystemError
        return f"{os.strerror(errno.ENOMEM)}; {ADVICE[errno.ENOMEM]}"
    return None


def _is_memory_short() -> bool:
    """Whether this process cannot even map a GiB that it does not use."""
    try:
        mmap.mmap(-1, 1 << 30).close()
    except OSError as error:
        return error.errno == errno.ENOMEM
    return False

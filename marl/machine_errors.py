"""Errors of the machine rather than of the program (disk, memory, limits), each in one line with what to do."""

import errno
import os

ADVICE = {
    errno.ENOSPC: "free some space, or use another disk",
    errno.EDQUOT: "free some space, or ask for a larger quota",
    errno.EROFS: "use a folder that can be written to",
    errno.EACCES: "use a folder of yours, or ask its owner",
    errno.EPERM: "use a folder of yours, or ask its owner",
    errno.EMFILE: "raise the limit with `ulimit -n 1024`",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "free some memory, or train with fewer --matches",
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
NO_HOME = "home directory"  # of Python's pathlib, for a user id without a name (containers)
NO_TEMPORARY_FOLDER = "No usable temporary directory"  # of Python's tempfile


def describe(error: BaseException) -> str | None:
    """The line for an error of the machine; None for any other error, which may be a mistake in the program."""
    if isinstance(error, MemoryError):
        return f"{os.strerror(errno.ENOMEM)}; {ADVICE[errno.ENOMEM]}"
    if isinstance(error, OSError):
        if NO_TEMPORARY_FOLDER in str(error):
            return "no temporary folder can be written to; set TMPDIR to a folder that can"
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
    return None

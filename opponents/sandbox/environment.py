"""Variables of the sandbox's host: a few; nothing in them leads to the submission's folder or to the working folder.

The host runs before anything is locked, and Python and the loader of shared libraries follow such variables. An empty
entry of a path means the working folder to them.
"""

import os
import re
from pathlib import Path

# No GPU: the competition has none, and training uses ours.
ALWAYS = {"CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0"}
ALWAYS |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
SANDBOXED = {"PATH": "/usr/bin", "HOME": "/scratch", "TMPDIR": "/scratch", "USER": "submission"}
# SYSTEMROOT: without it Windows opens no socket.
KEPT_UNCAGED = ("HOME", "TMPDIR", "SYSTEMROOT", "USERPROFILE", "TEMP", "TMP")
LANGUAGE = re.compile(r"[\w.@-]+")
SEPARATORS = re.compile("[:;]" if os.pathsep == ":" else os.pathsep)  # the loader of shared libraries takes both


def host_environment(folder: Path, sandboxed: bool) -> dict[str, str]:
    """All variables of the host for a submission in this folder."""
    found = dict(ALWAYS)
    if LANGUAGE.fullmatch(os.environ.get("LANG", "")):
        found["LANG"] = os.environ["LANG"]
    paths = ("LD_LIBRARY_PATH",) if sandboxed else ("LD_LIBRARY_PATH", "PATH")
    found |= {name: os.pathsep.join(entries) for name in paths if (entries := safe_entries(name, folder))}
    if sandboxed:
        return found | SANDBOXED
    return found | {name: os.environ[name] for name in KEPT_UNCAGED if os.path.isabs(os.environ.get(name, ""))}


def module_folders(folder: Path) -> list[str]:
    """The folders of PYTHONPATH that may be imported from."""
    return safe_entries("PYTHONPATH", folder)


def safe_entries(variable: str, folder: Path) -> list[str]:
    """The entries of a path that are absolute, hold neither the submission's folder nor home, and do not lie in it.

    A folder that holds the submission's is not safe: a stranger's folder could have the name of a package.
    """
    found = []
    for entry in SEPARATORS.split(os.environ.get(variable, "")):
        if os.path.isabs(entry):
            real = Path(os.path.realpath(entry))
            if not (folder.is_relative_to(real) or real.is_relative_to(folder) or holds_home(real)):
                found.append(entry)
    return found


def holds_home(folder: Path) -> bool:
    """Whether the home folder is this one or lies in it."""
    try:
        return Path.home().resolve().is_relative_to(folder)
    except (RuntimeError, OSError):  # nobody knows where it is
        return False

"""Test files that need what only POSIX has: where Python cannot fork, they are skipped, by group.

A file with the line `# runs without POSIX` needs nothing, whatever it names.
"""

import re
from pathlib import Path

# Reason -> words of a test file that show it.
GROUPS = {
    "the sandbox and attacks on it": r"opponents\.sandbox\.(host|limits|namespaces|process|syscall)",
    "shell scripts, SLURM and containers": r"\bbash\b|slurm|containers/|two_hosts",
    "forked processes": r"helpers\.(forking|training|rank_programs|faulty_ranks)|os\.fork\b|fork_launch|forkserver",
    "signals of POSIX": r"SIGKILL|SIGALRM|SIGUSR|killpg|helpers\.kills",
    "files and limits of POSIX": r"symlink_to|os\.symlink|mkfifo|geteuid|chmod|import (resource|pty|fcntl)|/proc/",
}


def group(path: Path) -> str | None:
    """What a test file needs that Windows has not; None if nothing."""
    text = path.read_text("utf-8")
    if "\n# runs without POSIX\n" in text:
        return None
    return next((reason for reason, words in GROUPS.items() if re.search(words, text)), None)

"""A program of the tests: runs commands one after another, on a Python without what Windows does not have.

Started with helpers/without_posix on PYTHONPATH. argv: a JSON list of command lines. After each of them a line with
MARK and the exit code comes on stdout and on stderr; at the end, what the program takes the system for.
"""

import json
import sys
import warnings
from pathlib import Path

from helpers.short_matches import short_matches

MARK = "\x1e"
# A rank of the doctor.
PROBE = """
import sys
from marl.doctor import rank_probe
rank_probe._gradient_check = lambda group: None
sys.exit(rank_probe.main(sys.argv[1:]))
"""


def main() -> None:
    warnings.filterwarnings("ignore", "pkg_resources is deprecated")  # pygame's own, beside an older setuptools
    import pygame

    import marl.cli.main as cli
    from arena import system
    from arena.render import window
    from marl.doctor import rank_check

    show = window.show

    def show_and_close(*words):
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        show(*words)

    window.show = show_and_close
    run = rank_check._run
    # Each takes seconds to load torch, and as long again for torch's DistributedDataParallel; two that compare their
    # gradients: test_doctor.py.
    rank_check._run = lambda backend, ranks: run(backend, 1)
    rank_check.PROGRAM = ("-c", PROBE)
    with short_matches(["train"]):
        for words in json.loads(sys.argv[1]):
            code = cli.main(words)
            for stream in (sys.stdout, sys.stderr):
                print(f"{MARK}{code}", file=stream, flush=True)
    print(json.dumps([system.HAS_FORK, system.HAS_SESSIONS, system.REPLACES_OPEN_FILES, Path("/proc/self").exists()]))


if __name__ == "__main__":
    main()

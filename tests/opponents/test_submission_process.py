"""The process of a submission ends with the arena, also with one that cannot tell it."""

import os
import signal

import pytest
from helpers.processes import ends
from helpers.submissions import Game, controller, written

from opponents.submission import Submission, SubmissionOptions

TELLS = "import os\nwith open('pids.txt', 'w') as file:\n    file.write(str(os.getpid()))\n"


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches processes in Linux's way")
def test_the_process_ends_when_the_arena_is_killed(tmp_path) -> None:
    game, path = Game(), written(tmp_path, controller("return [[0, 0, 0, 1]]", TELLS))
    arena = os.fork()
    if not arena:
        try:
            Submission(path, options=SubmissionOptions(uncaged=True, workers=1)).begin(game.arena, game.seats)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(arena, 0) == (arena, signal.SIGKILL)
    assert ends(int((tmp_path / "pids.txt").read_text()))

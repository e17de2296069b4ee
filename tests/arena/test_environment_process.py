"""What the environment loads, in a process of its own."""

import os

from helpers import rendering
from helpers.forking import Forked
from helpers.training import finish


def test_pygame_is_never_loaded() -> None:
    done = finish(Forked(rendering.main, environment=dict(os.environ)))
    assert done.returncode == 0, done.stderr

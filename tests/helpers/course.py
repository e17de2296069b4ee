"""The homework of a course: a folder with ten submissions, as students hand them in."""

from pathlib import Path
from unittest import mock

import pytest

from helpers.submissions import controller, written
from marl.cli.main import main
from marl.export import check
from opponents import match

STRAIGHT = controller("return [[int(i == 3) for i in range(4)]]")
RANDOM = controller("move = random.randrange(4)\nreturn [[int(i == move) for i in range(4)]]", before="import random\n")
TEXTS = {
    "ada": STRAIGHT,
    "bob": RANDOM,
    "李四": RANDOM,
    "cat": controller("return action_space[0].sample()"),  # no one-hot: every move is an error
    "dan": controller("return helper.move()", before="import helper\n"),  # a module of its own beside it
    "eve/v2": STRAIGHT,
    "fay/v2": RANDOM,
    "endless": controller("while True: pass"),  # asleep it would be waited for 20 times as long
    "broken": "def my_controller(observation:\n",
    "missing": "import no_such_module_anywhere\n" + STRAIGHT,
}
LABELS = {"ada", "bob", "李四", "cat", "dan", "eve/v2", "fay/v2", "endless", "planned"}  # of those that load
CAUSES = {
    "broken": "cannot be loaded: SyntaxError",
    "missing": "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module_anywhere'",
    "empty": "there is no submission.py, run, checkpoint or .safetensors in it",
}
TURNS = 6  # of a match: who wins does not matter here


def write_homework(folder: Path) -> Path:
    """Eleven folders with submissions, two of them broken and one planned, and an empty one."""
    for name, text in TEXTS.items():
        (folder / name).mkdir(parents=True)
        written(folder / name, text)
    (folder / "dan" / "helper.py").write_text("def move():\n    return [[0, 1, 0, 0]]\n")
    (folder / "empty" / "__pycache__").mkdir(parents=True)
    (folder / "notes.txt").write_text("to be graded\n")
    with mock.patch.object(check, "MOVES", 4):  # compared with the policy's
        assert main(["export", "champion_small", "--jidi", str(folder / "planned"), "--plan", "5"]) == 0
    return folder


def short_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches of a few turns; one that never answers is given up after the first stop."""
    monkeypatch.setattr(match, "TURNS", TURNS)
    monkeypatch.setattr("opponents.submission.HOPELESS", 1)

"""The Python blocks of the README and of docs/ run as they are printed, or are lines of the files that they name."""

import importlib.util
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from helpers.short_matches import SHORT, staggered_at_once

import marl
from marl.training.trainer import Trainer
from opponents import match

ROOT = Path(__file__).resolve().parent.parent
README, EXTEND, ARENA, LEARNERS = "README.md", "docs/extend.md", "docs/arena.md", "docs/learners.md"
PYTHON, WEEK = "docs/python.md", "docs/week.md"
SMALL = {'"cuda"': '"cpu"', "100_000": "100", "matches=200": "matches=4"}  # so that a block runs on any machine


def blocks(page: str) -> list[str]:
    """The Python blocks of a page, in order."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def block(page: str, part: str) -> str:
    """The only block of a page that holds this text."""
    (found,) = [text for text in blocks(page) if part in text]
    return found


@pytest.fixture
def in_folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder for runs, whose evaluations play the first turns of their matches only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(match, "TURNS", SHORT)
    with staggered_at_once():
        yield tmp_path


@pytest.fixture
def run(tmp_path, monkeypatch) -> Callable[[str], ModuleType]:
    """Runs a text as a module of its own: Numba needs a source file."""

    def run_text(text: str) -> ModuleType:
        file = tmp_path / "from_the_docs.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, file.stem, module)
        spec.loader.exec_module(module)
        return module

    return run_text


def test_the_arena(run) -> None:
    assert not run(block(README, "parallel_env")).env.agents
    text = "\n\n".join(blocks(ARENA))
    for word, small in SMALL.items():
        assert word in text
        text = text.replace(word, small)
    module = run(text)
    assert not module.env.agents
    assert module.rows.shape == (100, 6, 80)
    assert module.events.reward.shape == (100, 6)
    assert set(module.match) == {"turn", "snakes", "directions", "beans"}
    assert module.results.matches == 4


@pytest.mark.parametrize(
    ("part", "library"),
    [
        ("env.np_random", None),
        ("torch.distributions", None),
        ("PPO(", "stable_baselines3"),
        ("check_env_specs(", "torchrl"),
    ],
)
def test_the_environment_of_one_team(run, part, library) -> None:
    if library is not None:
        pytest.importorskip(library, reason=f"{library} is not installed")
    text = block(PYTHON, part).replace("matches=64", "matches=2").replace("192", "6").replace("100_000", "10")
    module = run(text.replace(").learn", ", n_steps=4, batch_size=24, device='cpu').learn"))
    if part == "env.np_random":
        assert module.terminated.all()


def test_the_four_functions(run, in_folder) -> None:
    module = run(block(PYTHON, "import load, play"))
    assert module.run.complete
    assert module.results.matches == 20


def test_the_training_with_a_callback(run, in_folder, capsys) -> None:
    module = run(block(PYTHON, "callback=watch"))
    out = capsys.readouterr().out
    assert "dry run: nothing was started or written" in out
    assert module.run.complete
    assert len(module.run.evaluations()["level1_low"]) > len(module.table["points"]), "it was resumed"


def test_the_loop_that_is_interrupted(run, in_folder, monkeypatch) -> None:
    """Ctrl-C in its first training; the same loop then goes on with it."""
    text = block(PYTHON, "points[lr]")
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_log", lambda self: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            run(text)
    (first,) = (in_folder / "runs" / "snakes_3v3").iterdir()
    assert not marl.TrainResult(first).complete
    assert len(run(text).points) == 2
    runs = [marl.TrainResult(each) for each in (in_folder / "runs" / "snakes_3v3").iterdir()]
    assert [each.complete for each in runs] == [True, True]


@pytest.mark.parametrize("text", blocks(LEARNERS), ids=range(len(blocks(LEARNERS))))
def test_the_losses_are_lines_of_their_files(text) -> None:
    first, _, code = text.partition("\n")
    source = (ROOT / first.removeprefix("# ")).read_text()
    source = "\n".join(line.strip() for line in source.splitlines())
    assert "\n".join(line.strip() for line in code.splitlines()) in source


def test_no_block_is_left_out() -> None:
    """Those of extend.md are run by tests/marl/test_plugins.py."""
    assert {page: len(blocks(page)) for page in (README, ARENA, EXTEND, LEARNERS, PYTHON)} == {
        **{README: 1, ARENA: 3, EXTEND: 6, LEARNERS: 2, PYTHON: 7},
    }
    assert blocks(WEEK) == [block(EXTEND, "PRESETS[")]
    others = [page.name for page in (ROOT / "docs").glob("*.md") if blocks(f"docs/{page.name}")]
    assert sorted(others) == ["arena.md", "extend.md", "learners.md", "python.md", "week.md"]

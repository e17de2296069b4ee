"""The Python blocks of README.md and docs/extend.md run as they are printed."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from arena import BatchArena
from arena.encoders import ENCODERS
from opponents.match import play
from opponents.scripted import SCRIPTED

ROOT = Path(__file__).resolve().parent.parent
README, EXTEND = "README.md", "docs/extend.md"
SMALL = {'"cuda"': '"cpu"', "100_000": "100"}  # so that the batch of the README runs on any machine


def blocks(page: str) -> list[str]:
    """The Python blocks of a page, in order."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def block(page: str, part: str) -> str:
    """The only block of a page that holds this text."""
    (found,) = [text for text in blocks(page) if part in text]
    return found


@pytest.fixture
def run(tmp_path, monkeypatch) -> Iterator:
    """Runs a text as a module of its own: Numba needs a source file."""
    scripted = dict(SCRIPTED)

    def run_text(text: str) -> ModuleType:
        file = tmp_path / "from_the_docs.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, file.stem, module)
        spec.loader.exec_module(module)
        return module

    yield run_text
    SCRIPTED.clear()
    SCRIPTED.update(scripted)


@pytest.mark.parametrize("page", [README, EXTEND])
def test_the_new_opponent_plays(page, run) -> None:
    # All names of scripted.py are there, as at its end.
    run("from opponents.scripted import *  # noqa: F403\n\n\n" + block(page, "SCRIPTED"))
    (name,) = SCRIPTED.keys() - {"level0", "level1", "level2", "level3", "level4", "evasive", "territory"}
    assert play(name, "level0", 2, seed=5).matches == 2


def test_the_new_encoder_observes(run, monkeypatch) -> None:
    module = run(block(EXTEND, "Encoder("))
    monkeypatch.setitem(ENCODERS, "lengths", module.LENGTHS)
    batch = BatchArena(2, seed=3)
    batch.start()
    rows = batch.observe("lengths")
    assert (rows[..., :6] == 3).all()
    assert (rows[..., 6:10].sum(-1) == 1).all()


def test_the_arena_of_the_readme(run) -> None:
    one, many = block(README, "parallel_env"), block(README, "BatchArena")
    for word, small in SMALL.items():
        assert word in many
        many = many.replace(word, small)
    module = run(one + "\n\n" + many)
    assert not module.env.agents
    assert module.rows.shape == (100, 6, 80)
    assert module.events.reward.shape == (100, 6)
    assert set(module.match) == {"turn", "snakes", "directions", "beans"}


def test_no_block_is_left_out() -> None:
    assert len(blocks(README)) == 3
    assert len(blocks(EXTEND)) == 2

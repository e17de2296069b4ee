"""When the text is compiled on a GPU, what of it, and what happens where torch cannot."""

from types import SimpleNamespace

import pytest
import torch

from marl.config.train_config import read_config
from marl.fast import compiled_text
from marl.fast.compiled_text import PAYS_FROM, compile_text, compiles

WORDS = ["--algo", "ddpg", "--matches", "100"]


def a_learner(turns: int = 2, updates: int = 1) -> SimpleNamespace:
    """As far as it is asked here; its functions return their own names."""
    optimizer = SimpleNamespace(step=lambda *_: "step")
    return SimpleNamespace(
        turns=turns,
        updates=updates,
        group=SimpleNamespace(world=1),
        losses=lambda *_: "losses",
        precision=SimpleNamespace(act=lambda *_: "act"),
        optimizers=lambda: {"actor": optimizer},
    )


@pytest.mark.parametrize(
    ("words", "world", "expected"),
    [
        (["--max_episodes", "20000"], 1, True),  # 200 turns of an episode, 2 turns and an update for 100 matches
        (["--max_episodes", "19999"], 1, False),
        (["--max_episodes", "39999"], 2, False),
        (["--max_episodes", "40000"], 2, True),
        (["--max_episodes", "1", "--compile", "on"], 1, True),
        (["--max_episodes", "100000", "--compile", "off"], 1, False),
    ],
)
def test_runs_of_many_updates_are_compiled(words, world, expected) -> None:
    assert PAYS_FROM == 20_000
    assert compiles(read_config([*WORDS, *words]), a_learner(), world) == expected


@pytest.mark.parametrize("works", [True, False])
def test_losses_steps_and_the_policy_are_compiled_or_run_as_they_stand(works, monkeypatch) -> None:
    asked = []

    def stand_in(function, dynamic):
        def call(*arguments):
            asked.append(function())
            if not works:
                raise RuntimeError("no C compiler\nat great length")
            return f"compiled {function()}"

        return call

    monkeypatch.setattr(torch, "compile", stand_in)
    monkeypatch.setattr(compiled_text, "compiles", lambda *_: True)
    learner, notes = a_learner(), []
    compile_text(learner, read_config([*WORDS, "--compile", "on"]), notes.append)
    start = "compiled " if works else ""
    for _ in range(2):
        (optimizer,) = learner.optimizers().values()
        found = learner.losses("batch"), optimizer.step(1.0), learner.precision.act("obs")
        assert found == (f"{start}losses", f"{start}step", f"{start}act")
    assert len(asked) == (6 if works else 3), "what failed once is not tried again"
    assert len(notes) == (0 if works else 3)
    assert all("which runs as it stands: no C compiler" in note and "\n" not in note for note in notes)


def test_without_it_nothing_is_touched() -> None:
    learner = a_learner()
    losses = learner.losses
    compile_text(learner, read_config([*WORDS, "--compile", "off"]), print)
    assert learner.losses is losses

"""The learners' text compiled by torch: traced as a whole. Without its code generator, which wants a GPU."""

import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from helpers.command import ROOT
from helpers.own_learner import Reinforce
from helpers.training_states import trained_weights

from marl import plugins, registry
from marl.config.autoscale import resolve
from marl.config.train_config import TrainConfig, read_config
from marl.fast import compiled_text
from marl.fast.compiled_text import PAYS_FROM, compile_text, compiles
from marl.learners.ppo_loss import PpoBatch
from marl.ranks.process_group import Solo
from marl.training.training_state import TrainingState

CPU = torch.device("cpu")
SEED = 3
SMALL = ["--device", "cpu", "--matches", "8", "--body", "8", "--seed", str(SEED), "--encoder", "features"]
ROUND = ["--update_interval", "24", "--batch_size", "48"]
REPLAY = ["--batch_size", "48", "--updates", "2", "--warmup_turns", "8"]
WORDS = {
    **dict.fromkeys(("ppo", "mappo"), ROUND),
    "ppo_lstm": ["--update_interval", "16", "--batch_size", "48"],  # every turn is traced
    **dict.fromkeys(("ddpg", "matd3", "qmix"), REPLAY),  # maddpg and vdn are parts of the last two
    **dict.fromkeys(("ppo_plain", "reinforce"), ROUND),  # of users: a subclass of Ppo, and a learner from scratch
}
pytestmark = pytest.mark.usefixtures("one_thread")


def state_of(algo: str, *more: str) -> TrainingState:
    config = resolve(read_config(["--algo", algo, *SMALL, *WORDS[algo], "--compile", "off", *more]), CPU)
    return TrainingState(config, Solo(CPU))


def weights_after(state: TrainingState) -> torch.Tensor:
    return trained_weights(state, rounds=2)


def on(config: TrainConfig) -> TrainConfig:
    return resolve(read_config(["--algo", config.algo, *SMALL, *WORDS[config.algo], "--compile", "on"]), CPU)


@pytest.fixture
def traced(request, monkeypatch):
    """torch.compile without its code generator; a call that cannot be traced as a whole is an error.

    `aot_eager` traces the gradients and what changes in place as well, which takes twice as long.
    """
    torch._dynamo.reset()
    compiled = torch.compile

    def traced_whole(function, dynamic, options):
        return compiled(function, dynamic=dynamic, backend=request.param, fullgraph=True)

    monkeypatch.setattr(compiled_text.torch, "compile", traced_whole)
    yield
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def learners_of_users(tmp_path, monkeypatch) -> Iterator[None]:
    """The learner of docs/extend.md, imported as a user does it, and one from scratch."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(plugins, "_plugins", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(registry.LEARNERS, "ppo_plain", None)  # the file sets it; removed after the test
    monkeypatch.setitem(registry.LEARNERS, "reinforce", Reinforce)
    monkeypatch.setitem(registry.SECTIONS, "reinforce", "ppo")
    page = (ROOT / "docs" / "extend.md").read_text()
    text = re.search(r"`my_learner\.py`:\n\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "my_learner.py").write_text(text[1])
    plugins.import_plugins([tmp_path / "my_learner.py"])
    yield
    del sys.modules["my_learner"]


# The next test traces ppo. Of each kind of learner, with rounds and with a replay buffer, one with its gradients.
@pytest.mark.parametrize(
    ("algo", "traced"),
    [(algo, "aot_eager" if algo == "ddpg" else "eager") for algo in WORDS if algo != "ppo"],
    indirect=["traced"],
)
def test_every_learner_is_traced_as_a_whole_and_trains_the_same(algo, traced) -> None:
    plain = weights_after(state_of(algo))
    state, notes = state_of(algo), []
    compile_text(state.learner, on(state.config), notes.append)
    assert torch.allclose(weights_after(state), plain, atol=1e-4)
    assert notes == []


@pytest.mark.parametrize("traced", ["aot_eager"], indirect=True)
def test_a_loss_of_a_user_is_traced_too(traced) -> None:
    def with_own_loss() -> TrainingState:
        state = state_of("ppo")
        plain = state.learner.loss

        def loss(outputs: torch.Tensor, batch: PpoBatch) -> tuple[torch.Tensor, torch.Tensor]:
            value, stats = plain(outputs, batch)
            return value + outputs.square().mean(), stats

        state.learner.loss = loss
        return state

    state, notes = with_own_loss(), []
    compile_text(state.learner, on(state.config), notes.append)
    weights = weights_after(state)
    assert notes == []
    assert torch.allclose(weights, weights_after(with_own_loss()), atol=1e-4)
    assert not torch.allclose(weights, weights_after(state_of("ppo")), atol=1e-4)


def test_what_torch_cannot_compile_runs_as_it_stands(monkeypatch) -> None:
    def broken(function, **_):
        def call(*arguments):
            raise RuntimeError("no C compiler\nand a long report")

        return call

    monkeypatch.setattr(compiled_text.torch, "compile", broken)
    plain = weights_after(state_of("ddpg"))
    state, notes = state_of("ddpg"), []
    compile_text(state.learner, on(state.config), notes.append)
    assert torch.equal(weights_after(state), plain)
    assert len(notes) == 3
    assert all(line.endswith("which runs as it stands: no C compiler") for line in notes)


@pytest.mark.parametrize(
    ("argv", "world", "expected"),
    [
        (["--max_episodes", "20000"], 1, True),  # 200 turns of an episode, 2 turns and an update for 100 matches
        (["--max_episodes", "19999"], 1, False),
        (["--max_episodes", "39999"], 2, False),
        (["--max_episodes", "40000"], 2, True),
        (["--max_episodes", "1", "--compile", "on"], 1, True),
        (["--max_episodes", "100000", "--compile", "off"], 1, False),
    ],
)
def test_a_run_of_few_updates_is_not_compiled(argv, world, expected) -> None:
    assert PAYS_FROM == 20_000
    learner = SimpleNamespace(turns=2, updates=1)
    assert compiles(read_config(["--algo", "ddpg", "--matches", "100", *argv]), learner, world) == expected

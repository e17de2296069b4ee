"""The seam: passes stand in for the text only while they compute what it says; every edit of the text counts."""

from functools import cache

import numba
import pytest
import torch
from helpers.training_states import trained_weights

import marl.learners.ppo as ppo_module
from marl import registry
from marl.config.autoscale import resolve
from marl.config.train_config import TrainConfig, read_config
from marl.fast import seam
from marl.learners.ddpg import Ddpg
from marl.learners.ppo import Ppo
from marl.learners.q_learning import QLearning
from marl.networks.layers import MLP
from marl.ranks.process_group import Solo
from marl.training.training_state import TrainingState

CPU = torch.device("cpu")
SEED = 3
SMALL = ["--device", "cpu", "--matches", "8", "--body", "16,16", "--seed", str(SEED), "--encoder", "features"]
WORDS = {
    "ppo": ["--algo", "ppo", "--update_interval", "64", "--batch_size", "48", *SMALL],
    "ddpg": ["--algo", "ddpg", "--batch_size", "48", "--updates", "2", "--warmup_turns", "8", *SMALL],
    "qmix": ["--algo", "qmix", "--batch_size", "48", "--updates", "2", "--warmup_turns", "8", *SMALL],
}
pytestmark = pytest.mark.usefixtures("one_thread")


def config_of(algo: str, *more: str) -> TrainConfig:
    return resolve(read_config([*WORDS[algo], *more]), CPU)


def trained(config: TrainConfig, rounds: int = 2, overlaps: bool = False) -> tuple[torch.Tensor, list[str], str]:
    """All weights after some rounds, the notes, and what computes the gradients."""
    state = TrainingState(config, Solo(CPU, overlaps))
    state.learner.anneal(1.0, 0.5)
    weights = trained_weights(state, rounds)
    return weights, state.slow_texts, state.learner.gradients.__self__.__class__.__name__


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("algo", ["ppo", "ddpg"])
def test_passes_run_and_train_what_the_text_trains(algo, overlaps) -> None:
    weights, notes, runs = trained(config_of(algo), overlaps=overlaps)
    assert (runs, notes) == ("CpuPasses", [])
    text, notes, runs = trained(config_of(algo, "--compile", "off"))
    assert (runs, notes) == (algo.capitalize(), [])
    assert torch.allclose(weights, text, atol=2e-3), (weights - text).abs().max()


def test_a_changed_line_of_the_loss_counts(monkeypatch) -> None:
    """The entropy term doubled, as an edit of ppo_loss.py would."""
    before, _, _ = trained(config_of("ppo"))
    plain = ppo_module.ppo_loss

    def edited(outputs, batch, coefs):
        return plain(outputs, batch, coefs._replace(regularisers=coefs.regularisers * torch.tensor((2.0, 1.0))))

    monkeypatch.setattr(ppo_module, "ppo_loss", edited)
    after, notes, runs = trained(config_of("ppo"))
    assert runs == "Ppo"
    assert notes == ["gradients of the compiled passes differ from those of the text: the text runs, more slowly"]
    assert not torch.equal(before, after)
    text, _, _ = trained(config_of("ppo", "--compile", "off"))
    assert torch.allclose(after, text, atol=2e-3)


def test_a_small_row_beside_large_ones_counts() -> None:
    """Of a head, the value's row is often a thousand times as large as those of the actions."""
    text = torch.tensor([[1000.0] * 4, [0.5] * 4, [0.0] * 4])
    for row, error, same in ((0, 0.1, True), (0, 10.0, False), (1, 1e-4, True), (1, 0.1, False), (2, 1e-4, True)):
        passes = text.clone()
        passes[row] += error
        assert seam._same_rows([torch.zeros(3, 4)], text.flatten(), passes.flatten()) is same, (row, error)


@pytest.mark.parametrize(("differs_elsewhere", "expected"), [(True, "Ppo"), (False, "CpuPasses")])
def test_all_ranks_run_the_text_if_the_passes_of_one_differ(differs_elsewhere, expected, monkeypatch) -> None:
    """Ranks that decide otherwise would add up other numbers."""
    monkeypatch.setattr(Solo, "any", lambda self, mine: mine or differs_elsewhere)
    _, notes, runs = trained(config_of("ppo"), rounds=1)
    assert (runs, len(notes)) == (expected, differs_elsewhere)


@pytest.mark.parametrize(("algo", "runs_text"), [("qmix", True), ("ppo", False)])
def test_a_text_that_runs_gets_the_threads_of_both_halves(algo, runs_text, monkeypatch) -> None:
    config, given = config_of(algo), []
    monkeypatch.setattr(seam, "use_threads", given.append)
    learner = TrainingState(config, Solo(CPU)).learner
    assert given == []
    seam.speed_up(learner, config, Solo(CPU, True), lambda line: None)
    assert given == [numba.get_num_threads()] * runs_text


@pytest.mark.parametrize("algo", ["ppo", "ddpg"])
def test_a_changed_network_counts(algo, monkeypatch) -> None:
    """Other activations, as an edit of layers.py would make: also in the turns that are played."""

    def forward(self, hidden):
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        return self.head(hidden)

    monkeypatch.setattr(MLP, "forward", forward)
    weights, notes, runs = trained(config_of(algo))
    assert runs == algo.capitalize()
    assert len(notes) == 1
    text, _, _ = trained(config_of(algo, "--compile", "off"))
    assert torch.equal(weights, text)


@cache
def trained_by_default(algo: str) -> torch.Tensor:
    return trained(config_of(algo))[0]


def scaled(value):
    """Another result of the same kind: what an override may return."""
    if isinstance(value, torch.Tensor):
        return value * 8 if value.is_floating_point() else value
    return type(value)(scaled(each) for each in value) if isinstance(value, tuple) else value


# Methods that give numbers to an update; what they return is made eight times as large by an override.
OVERRIDDEN = {
    "ppo": (Ppo, ["act", "gradients", "losses", "outputs_for", "loss", "last_values"]),
    "ddpg": (Ddpg, ["act", "gradients", "losses", "_target", "_critic_loss", "_actor_loss", "_q_for_actor", "_masked"]),
    "qmix": (QLearning, ["gradients", "losses", "_target"]),
}
# Methods that change something; an override does nothing.
IDLE = {
    "ppo": (Ppo, ["_estimate_advantages", "learn", "update"]),
    "ddpg": (Ddpg, ["_move_targets", "learn", "update"]),
    "qmix": (QLearning, ["_move_targets", "learn", "update"]),
}


@pytest.mark.parametrize(
    ("algo", "name"),
    [(algo, name) for table in (OVERRIDDEN, IDLE) for algo, (_, names) in table.items() for name in names],
)
def test_a_subclass_that_overrides_a_method_counts(algo, name, monkeypatch) -> None:
    base, scales = OVERRIDDEN[algo]

    def override(self, *arguments):
        result = getattr(super(mine, self), name)(*arguments) if name in scales else None
        if name == "gradients":  # it returns statistics
            for optimizer in self.optimizers().values():
                optimizer.gradients.zero_()
        return scaled(result)

    mine = type("Mine", (base,), {name: override})
    monkeypatch.setitem(registry.LEARNERS, algo, mine)
    weights, _, _ = trained(config_of(algo))
    monkeypatch.setitem(registry.LEARNERS, algo, base)
    assert not torch.equal(weights, trained_by_default(algo)), f"{name} was not called"

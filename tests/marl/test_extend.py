"""Extension points: a learner, a network and a reward preset of one's own, each a few lines and an entry in a table."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from marl import registry, rewards
from marl.config.autoscale import resolve
from marl.config.train_config import TrainConfig, read_config
from marl.errors import UserError
from marl.learners.factory import make_assignment, make_learner
from marl.learners.learner import Learner
from marl.learners.ppo import Ppo
from marl.learners.precision import Precision
from marl.networks.layers import dense
from marl.networks.policy import build_actor, describe_actor
from marl.networks.stems import DenseStem
from marl.ranks.process_group import Solo
from marl.rollout.rollout import Rollout
from opponents.scheduler import Scheduler

SEED = 3
ENTROPY = 1 + Ppo.LOGGED.index("policy/entropy")
CPU = torch.device("cpu")
SMALL = ["--device", "cpu", "--matches", "8", "--body", "16", "--seed", str(SEED)]
pytestmark = pytest.mark.usefixtures("one_thread")


def trained(*words: str, rounds: int = 3) -> tuple[TrainConfig, Learner, torch.Tensor]:
    """The configuration of these flags, its learner after some rounds of updates, and the last round's statistics."""
    config = resolve(read_config([*SMALL, *words]), CPU)
    scheduler = Scheduler(config.schedule)
    assignment = make_assignment(config, scheduler)
    learner = make_learner(config, assignment, Solo(CPU), Precision(config.precision, CPU))
    opponents, weights = scheduler.reachable(), config.reward.weights()
    rollout = Rollout(assignment, opponents, weights, learner.buffer, config.seed, outputs=learner.outputs)
    learner.attach(rollout)
    rollout.start()
    before = {name: tensor.clone() for name, tensor in learner.named_weights()}
    for _ in range(rounds):
        learner.begin_round()
        for _ in range(max(learner.turns, learner.warmup_turns)):
            rollout.play_turn(learner.act)
        learner.pop_stats()
        learner.learn()
    assert not any(torch.equal(tensor, before[name]) for name, tensor in learner.named_weights())
    stats = learner.pop_stats()
    assert torch.isfinite(stats).all()
    assert stats[0] == learner.updates
    return config, learner, stats


PPO_SMALL = ["--update_interval", "64", "--batch_size", "48"]


def test_a_learner_with_a_loss_of_its_own(monkeypatch) -> None:
    class UniformPpo(Ppo):
        """Learns nothing but a uniform policy."""

        def loss(self, outputs, batch):
            _, stats = super().loss(outputs, batch)
            logits, values = outputs.split([4, 1], -1)
            return logits.log_softmax(-1).square().mean() + values.square().mean(), stats

    monkeypatch.setitem(registry.LEARNERS, "ppo_uniform", UniformPpo)
    config, learner, stats = trained("--algo", "ppo_uniform", *PPO_SMALL, "--lr", "0.01", rounds=20)
    assert type(learner) is UniformPpo
    assert config.learner_section == "ppo"
    _, _, of_ppo = trained("--algo", "ppo", *PPO_SMALL, "--lr", "0.01", rounds=20)
    assert stats[ENTROPY] / stats[0] > 1.09 > of_ppo[ENTROPY] / of_ppo[0], "log 3 is 1.0986"


def test_a_learner_with_outputs_of_its_own(monkeypatch) -> None:
    class DropoutPpo(Ppo):
        """Observations are dropped out while it learns."""

        def outputs_for(self, items, obs):
            return self.ddp_network(nn.functional.dropout(obs.float(), 0.1))

    monkeypatch.setitem(registry.LEARNERS, "ppo_dropout", DropoutPpo)
    _, learner, _ = trained("--algo", "ppo_dropout", *PPO_SMALL)
    assert type(learner) is DropoutPpo


def test_a_network_kind(monkeypatch) -> None:
    class NarrowStem(nn.Module):
        """Two dense layers, with `channels` between them."""

        def __init__(self, encoder, spec):
            super().__init__()
            self.read = DenseStem(encoder, replace(spec, body=spec.channels))
            self.out = dense(spec.channels[-1], spec.body[0])

        def forward(self, obs):
            return self.out(self.read(obs).tanh())

    monkeypatch.setitem(registry.NETWORKS, "narrow", NarrowStem)
    for algo in (["--algo", "ddpg", "--batch_size", "24"], ["--algo", "ppo_lstm", "--lstm_size", "8", *PPO_SMALL]):
        config, learner, _ = trained("--kind", "narrow", "--channels", "5", *algo, rounds=2)
        assert config.network.kind == "narrow"
        stems = [each.first for net in learner.networks().values() for each in net.modules() if hasattr(each, "first")]
        assert len(stems) == len(learner.networks())
        assert all(type(stem) is NarrowStem and stem.out.in_features == 5 for stem in stems)
        description = json.loads(json.dumps(describe_actor(learner.encoder, learner.spec)))
        again, _ = build_actor(description, learner.actor.state_dict(), "a snapshot")
        assert type(again.first) is NarrowStem, "its snapshots have it too"


def test_a_reward_preset(monkeypatch) -> None:
    monkeypatch.setitem(rewards.PRESETS, "survivor", rewards.RewardWeights(die=2.0))
    config = read_config(["--preset", "survivor", "--eat", "0.5"])
    assert config.reward.weights() == [0, 0, 0, 0.5, 2, 0, 0, 0]
    _, learner, _ = trained("--preset", "survivor", "--algo", "ppo", *PPO_SMALL)
    assert set(learner.buffer.rewards.unique().tolist()) == {0.0, -2.0}


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--algo", "ppo_mine"], ("--algo", "'ppo_mine'", "ddpg, maddpg, matd3, ppo, ppo_lstm, mappo, vdn, qmix")),
        (["--kind", "narrow"], ("--kind", "'narrow'", "mlp, cnn")),
        (["--preset", "survivor"], ("--preset", "'survivor'", "score, team, win, shaped")),
    ],
)
def test_what_is_in_no_table_is_unknown(words, parts) -> None:
    with pytest.raises(UserError) as error:
        read_config(words)
    assert all(part in str(error.value) for part in parts), error.value

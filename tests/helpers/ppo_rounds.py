"""PPO in tests: a learner with matches of its own, and rounds that it plays."""

from typing import Any

import pytest
import torch

from arena.backends.cuda_graphs import Captured
from arena.encoders import encoder_named
from helpers.collecting import CPU
from marl.config.learner_configs import PpoConfig
from marl.config.sections import NetworkConfig, RewardConfig
from marl.learners.ppo import Ppo
from marl.learners.ppo_loss import PpoBatch
from marl.learners.ppo_lstm import PpoLstm
from marl.learners.precision import Precision
from marl.learners.rollout_buffer import RolloutBuffer
from marl.ranks.process_group import Ranks, Solo
from marl.rollout.assignment import MatchAssignment
from marl.rollout.rollout import Rollout

MIX = {"level0": 0.5, "level1": 0.5}
_begun: dict[Any, dict[str, torch.Tensor]] = {}


def a_ppo(
    matches: int | MatchAssignment = 8,
    turns: int = 6,
    mix: dict[str, float] | None = None,
    seed: int = 1,
    group: Solo | Ranks | None = None,
    precision: Precision | str = "fp32",
    sync_freq: int = 1,
    recurrent: bool = False,
    masks_reversal: bool = True,
    body: tuple[int, ...] = (16, 12),
    messages: bool = False,
    reward: RewardConfig | None = None,
    spread: float = 0.0,
    **options,
) -> tuple[Ppo, Rollout]:
    """A learner and its matches, which have not been started; options are PpoConfig's.

    Initial weights give nearly the same outputs everywhere: `spread` is the size of the noise that is added to them.
    """
    assignment = matches if isinstance(matches, MatchAssignment) else MatchAssignment(matches)
    group, mix = group or Solo(CPU), mix or MIX
    buffer = RolloutBuffer(turns, assignment.teams, encoder_named("features"), group.device, 99 + group.rank)
    network = NetworkConfig(encoder="features", body=body, messages=messages, lstm_size=body[-1])
    precision = Precision(precision, group.device) if isinstance(precision, str) else precision
    config = PpoConfig(**({"batch_size": 10**9, "epochs": 1, "max_grad_norm": 0.0, "lr": 2e-3} | options))
    learner = (PpoLstm if recurrent else Ppo)(config, network, buffer, group, precision, sync_freq, seed)
    weights = (reward or RewardConfig()).weights()
    world = (group.rank, group.world)
    rest = {"outputs": learner.outputs, "masks_reversal": masks_reversal}
    rollout = Rollout(assignment, tuple(mix), weights, buffer, seed, *world, **rest)
    rollout.set_mix(mix)
    learner.attach(rollout)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(seed)
        for parameter in learner.actor.parameters():
            parameter.add_(spread * torch.randn(parameter.shape, generator=generator).to(group.device))
    return learner, rollout


def begin(rollout: Rollout) -> None:
    """Bring the matches to different turns by random actions: some end in every stretch of turns. Cached."""
    arena = rollout.arena
    made_of = (arena.device, rollout.assignment, rollout.opponents, rollout.masks_reversal)
    key = (*made_of, arena.seed, arena.stride, *arena.numbers.tolist())
    if key not in _begun:
        rollout.start()
        _begun[key] = rollout.state_dict()
    rollout.load_state_dict(_begun[key])


def play(learner: Ppo, rollout: Rollout) -> None:
    """All turns of a round."""
    learner.begin_round()
    for _ in range(learner.turns):
        rollout.play_turn(learner.act)


def assert_rounds_are_replayed(learner: Ppo, rollout: Rollout) -> None:
    """On a GPU three rounds as they are, one recorded, two replayed: each moves the weights, all stay finite."""
    rollout.arena.start()
    learner.anneal(1.0, 0.0)

    def a_round() -> None:
        play(learner, rollout)
        learner.learn()

    captured, before = Captured(a_round, learner.buffer.device, True), None
    for number in range(6):
        captured()
        weights = torch.cat([parameter.detach().flatten() for parameter in learner.network.parameters()])
        assert weights.isfinite().all(), f"round {number}"
        assert before is None or not torch.equal(weights, before), f"round {number}"
        before = weights


def batches_of(learner: Ppo, patch: pytest.MonkeyPatch) -> list[dict[str, torch.Tensor]]:
    """A list that fills with the rows, outputs and mean statistics of every minibatch."""
    seen, gradients, loss = [], learner.gradients, learner.loss
    outputs: list[torch.Tensor] = []

    def watched_loss(found: torch.Tensor, batch: PpoBatch) -> tuple[torch.Tensor, torch.Tensor]:
        outputs.append(found.detach().clone())
        return loss(found, batch)

    def watched(items: torch.Tensor) -> torch.Tensor:
        stats = gradients(items)
        rows = learner.rows_of(items).clone()
        seen.append({"idx": rows, "outputs": outputs.pop(), "stats": stats.clone()})
        return stats

    patch.setattr(learner, "loss", watched_loss)
    patch.setattr(learner, "gradients", watched)
    return seen


def means(batches: list[dict[str, torch.Tensor]]) -> list[list[float]]:
    """The mean statistics of each minibatch: policy loss, value loss, entropy, KL, clipped share."""
    return [batch["stats"].tolist() for batch in batches]


def weights_of(learner: Ppo) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.named_weights()}


def same_weights(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    assert a.keys() == b.keys()
    return all(torch.equal(a[name], b[name]) for name in a)

"""`--no-fused` (losses, advantages and returns in plain torch) trains as the compiled loops do, within rounding."""

import platform

import pytest
import torch
from helpers.collecting import CPU, a_rollout
from helpers.ppo_rounds import a_ppo, begin, play, weights_of

from marl.config.learner_configs import DdpgConfig
from marl.config.network_config import NetworkConfig
from marl.fast import blas
from marl.learners import ppo, replay_buffer, rollout_buffer
from marl.learners.ddpg import Ddpg
from marl.learners.learner import Learner
from marl.learners.precision import Precision
from marl.ranks.process_group import Solo

SEED, ROUNDS = 13, 4
pytestmark = pytest.mark.usefixtures("one_thread")


def by_ppo(fused: bool, **options) -> tuple[Learner, list[torch.Tensor]]:
    """A learner after some rounds of two minibatches, three epochs each, and the statistics of the rounds."""
    learner, rollout = a_ppo(
        16, 16, seed=SEED, spread=0.2, batch_size=16 * 16 * 3 // 2, epochs=3, value_clip=0.3, entropy=0.05,
        uniform_kl=0.05, max_grad_norm=0.5, fused=fused, **options,
    )  # fmt: skip
    begin(rollout)
    stats = []
    for number in range(ROUNDS):
        play(learner, rollout)
        learner.anneal(1.0, number / ROUNDS)
        learner.learn()
        stats.append(learner.pop_stats())
    assert learner.buffer.terminated.any()
    return learner, stats


def by_ddpg(fused: bool, **options) -> tuple[Learner, list[torch.Tensor]]:
    """A learner after some rounds of ten turns and five updates, and the statistics of the rounds."""
    rollout = a_rollout(16, turns=30, opponents=("level0", "level1"), seed=SEED)
    config = DdpgConfig(batch_size=120, a_lr=1e-3, c_lr=1e-3, uniform_kl=0.02, **options)
    network = NetworkConfig(body=(16, 12))
    learner = Ddpg(config, network, rollout.buffer, Solo(CPU), Precision("fp32", CPU), seed=SEED, fused=fused)
    rollout.start()
    rollout.set_mix({"level0": 0.5, "level1": 0.5})
    rollout.epsilon.fill_(0.2)
    stats = []
    for _ in range(ROUNDS):  # the buffer is a ring of 30 turns: the last round has gone round
        for _ in range(10):
            rollout.play_turn(learner.act)
        for _ in range(5):
            learner.update()
        stats.append(learner.pop_stats())
    assert rollout.buffer.terminated.any()
    return learner, stats


@pytest.fixture
def called(monkeypatch) -> set[str]:
    """A set that fills with the names of the torch functions that are called."""
    names = set()

    def watch(module, name: str) -> None:
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *arguments: (names.add(name), function(*arguments))[1])

    watch(ppo, "ppo_loss")
    watch(rollout_buffer, "generalized_advantages")
    watch(replay_buffer, "n_step_returns")
    return names


@pytest.mark.parametrize(
    ("train", "options"),
    [
        (by_ddpg, {}),
        (by_ddpg, {"n_step": 1, "twin": True}),
        (by_ddpg, {"n_step": 7, "critic": "team", "critic_form": "joined"}),
        (by_ddpg, {"critic": "team", "twin": True, "policy_delay": 5, "target_noise": 0.2}),
        (by_ppo, {}),
        (by_ppo, {"critic": "team"}),
        (by_ppo, {"masks_reversal": False}),
        (by_ppo, {"sync_freq": 2}),
        (by_ppo, {"recurrent": True}),
    ],
    ids=["ddpg", "ddpg_twin", "ddpg_joined", "matd3", "ppo", "mappo", "ppo_reversals", "ppo_sync2", "ppo_lstm"],
)
def test_torch_trains_as_the_compiled_loops_do(train, options, called) -> None:
    fused, stats = train(True, **options)
    assert not called
    plain, plain_stats = train(False, **options)
    assert called == ({"n_step_returns"} if train is by_ddpg else {"ppo_loss", "generalized_advantages"})
    for mine, its in zip(plain_stats, stats, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-4)
    assert torch.equal(plain.buffer.actions, fused.buffer.actions)
    expected = weights_of(fused)
    for name, tensor in weights_of(plain).items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("train", [by_ppo, by_ddpg])
def test_passes_in_compiled_calls_train_as_torchs_functions_do(train, monkeypatch) -> None:
    """To the bit where they round alike (ARM)."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert blas.is_usable()
    compiled, compiled_stats = train(True)
    monkeypatch.setattr(blas, "is_usable", lambda: False)
    plain, plain_stats = train(True)
    tolerance = 0.0 if platform.machine() in ("aarch64", "arm64") else 1e-3
    for name, weight in weights_of(plain).items():
        torch.testing.assert_close(weights_of(compiled)[name], weight, rtol=tolerance, atol=tolerance, msg=name)
    torch.testing.assert_close(compiled_stats, plain_stats, rtol=tolerance, atol=tolerance)

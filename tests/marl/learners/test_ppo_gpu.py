"""PPO learns from packed rows what it learns from plain ones, and by passes on a GPU what it learns by autograd.

To the bit on a CPU; within rounding on a GPU, and in Triton's interpreter.
"""

import pytest
import torch
from helpers.collecting import CPU
from helpers.ppo_rounds import assert_rounds_are_replayed
from helpers.triton_kernels import need_triton

from arena.encoders import PACKINGS, encoder_named
from marl.compute.precision import Precision
from marl.compute.triton_kernels import triton_problem
from marl.config.learner_configs import PpoConfig
from marl.config.network_config import NetworkConfig
from marl.config.reward_config import RewardConfig
from marl.learners.ppo import Ppo
from marl.learners.ppo_gpu import GpuPart
from marl.learners.ppo_lstm import PpoLstm
from marl.learners.rollout_buffer import RolloutBuffer
from marl.networks.stems import usable_packing
from marl.ranks.process_group import Solo
from marl.rollout.assignment import MatchAssignment
from marl.rollout.rollout import Rollout

SEED = 41
TURNS = 4
pytestmark = pytest.mark.usefixtures("one_thread")


def a_learner(
    name: str,
    packed: bool,
    device: torch.device,
    body: tuple[int, ...],
    matches: int,
    recurrent: bool = False,
    critic: str = "snake",
    fused: bool = True,
) -> tuple[Ppo, Rollout]:
    assignment = MatchAssignment(matches, self_play_both=tuple(range(matches // 2)))
    packing = PACKINGS[name] if packed else None
    buffer = RolloutBuffer(TURNS, assignment.teams, encoder_named(name), device, 7, packing)
    network = NetworkConfig(encoder=name, body=body, lstm_size=body[-1])
    config = PpoConfig(batch_size=assignment.teams * TURNS * 3 // 2, epochs=1, lr=1e-3, critic=critic)
    precision = Precision("bf16" if device.type == "cuda" else "fp32", device)
    learner = (PpoLstm if recurrent else Ppo)(config, network, buffer, Solo(device), precision, 1, SEED, fused)
    mix = {"level0": 1.0}
    rollout = Rollout(assignment, tuple(mix), RewardConfig().weights(), buffer, SEED, outputs=learner.outputs)
    rollout.set_mix(mix)
    learner.attach(rollout)
    return learner, rollout


def a_round(learner: Ppo, rollout: Rollout) -> None:
    rollout.arena.start()
    for _ in range(TURNS):
        rollout.play_turn(learner.act, learner.record_step)
    learner.anneal(1.0, 0.0)
    learner.learn()


@pytest.mark.parametrize(
    ("name", "recurrent", "critic"),
    [
        ("planes", False, "snake"),
        ("planes", True, "snake"),
        ("planes", False, "team"),
        ("tactical_board", False, "snake"),
    ],
)
def test_packed_rows_change_nothing_on_a_cpu(name, recurrent, critic) -> None:
    learners = []
    for packed in (False, True):
        learner, rollout = a_learner(name, packed, CPU, (12, 8), 4, recurrent, critic)
        a_round(learner, rollout)
        learners.append((learner, rollout))
    (plain, before), (packed, after) = learners
    assert torch.equal(PACKINGS[name].unpack(packed.buffer.obs), plain.buffer.obs), f"seed {SEED}"
    assert torch.equal(after.arena.state, before.arena.state)
    for (key, a), (_, b) in zip(plain.named_weights(), packed.named_weights(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-7, msg=f"{key}, seed {SEED}")


@pytest.mark.parametrize("name", ["planes", "tactical_board"])
def test_an_encoder_that_writes_into_the_buffer_changes_nothing(name, monkeypatch) -> None:
    learners = []
    for is_direct in (False, True):
        if is_direct:
            row = lambda buffer, turn: buffer.obs[turn % TURNS].view(-1, buffer.row_encoder.width)  # noqa: E731
            monkeypatch.setattr(RolloutBuffer, "row_of", row)
        learner, rollout = a_learner(name, True, CPU, (12, 8), 4)
        for _ in range(2):
            a_round(learner, rollout)
        learners.append(learner)
    assert torch.equal(learners[1].buffer.obs, learners[0].buffer.obs), f"seed {SEED}"
    for (key, a), (_, b) in zip(learners[0].named_weights(), learners[1].named_weights(), strict=True):
        assert torch.equal(a, b), f"{key}, seed {SEED}"


def test_packed_rows_are_for_dense_networks_in_bf16_on_a_gpu() -> None:
    network = NetworkConfig(encoder="planes", body=(16, 16))
    assert usable_packing(network, Precision("bf16", CPU)) is None
    assert "no GPU" in triton_problem(CPU)


def first_minibatch(learner: Ppo, rollout: Rollout) -> tuple[torch.Tensor, ...]:
    """Outputs, statistics and gradients. (Later minibatches begin from weights that rounding has moved apart.)"""
    device = learner.buffer.device
    rollout.arena.start()
    for _ in range(TURNS):
        rollout.play_turn(lambda obs: torch.zeros(len(obs), 5, device=device), learner.record_step)
    outputs = learner.act(rollout.observe()).float().clone()
    learner.buffer.values[-1] = 0
    learner._estimate_advantages()
    learner._measure_advantages()
    items = learner._shuffler.shuffle()[: learner.minibatches.each]
    assert len(learner._parts) == 1
    stats = learner._parts[0].backward(learner, items)
    return outputs, stats.clone(), torch.cat([p.grad.flatten() for p in learner.network.parameters()])


def weights_of(learner: Ppo) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in learner.network.parameters()])


def assert_near(found: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...], most: float) -> None:
    for what, a, b in zip(("outputs", "statistics", "gradients"), found, expected, strict=True):
        off = ((a - b).norm() / b.norm()).item()
        assert off < most, f"{what}: off by {off:.2g}, seed {SEED}"


@pytest.mark.parametrize("packed", [False, True])
def test_passes_of_a_gpu_give_the_gradients_of_autograd_in_an_interpreter(packed, monkeypatch) -> None:
    need_triton()
    if torch.cuda.is_available():
        pytest.skip("the kernels are compiled for a GPU")
    by_autograd = a_learner("planes", False, CPU, (20, 12), 2, fused=False)
    before = weights_of(by_autograd[0])
    expected = first_minibatch(*by_autograd)
    by_autograd[0].optimizer.zero_grad()
    monkeypatch.setattr("marl.learners.ppo.may_learn_on_gpu", lambda *_: True)
    learner, rollout = a_learner("planes", packed, CPU, (20, 12), 2)
    assert isinstance(learner._parts[0], GpuPart)
    assert_near(first_minibatch(learner, rollout), expected, 1e-5)
    for _ in range(2):
        a_round(*by_autograd)
        a_round(learner, rollout)
        moved = weights_of(by_autograd[0]) - before
        off = ((weights_of(learner) - before - moved).norm() / moved.norm()).item()
        assert off < 0.01, f"weights: off by {off:.2g}, seed {SEED}"
        obs = rollout.observe()  # turns are played with the weights of the round before
        found, expected = learner.act(obs), learner._precision.act(learner.network, obs, None, None)[0]
        torch.testing.assert_close(found, expected.view(found.shape), rtol=1e-4, atol=1e-5, msg=f"seed {SEED}")


needs_triton = pytest.mark.skipif(
    torch.cuda.is_available() and triton_problem(torch.device("cuda", 0)) != "", reason="Triton's kernels cannot run"
)


@pytest.mark.needs_cuda
@needs_triton
@pytest.mark.parametrize(
    ("body", "recurrent", "critic"),
    [((256, 128), False, "snake"), ((512, 256), False, "snake"), ((96,), False, "snake"), ((256, 128), False, "team"),
     ((256, 128), True, "snake")],
)  # fmt: skip
@pytest.mark.parametrize("name", PACKINGS)
def test_minibatches_on_a_gpu_give_the_gradients_of_autograd(name, body, recurrent, critic) -> None:
    device = torch.device("cuda", 0)
    expected = first_minibatch(*a_learner(name, False, device, body, 250, recurrent, critic, fused=False))
    for packed in (False, True):
        learner, rollout = a_learner(name, packed, device, body, 250, recurrent, critic)
        has_passes = not recurrent and critic == "snake" and len(body) == 2
        assert isinstance(learner._parts[0], GpuPart) == has_passes
        assert_near(first_minibatch(learner, rollout), expected, 0.02)


@pytest.mark.needs_cuda
@needs_triton
def test_rounds_are_recorded_as_graphs_and_replayed() -> None:
    print(f"seed {SEED}")
    assert_rounds_are_replayed(*a_learner("planes", True, torch.device("cuda", 0), (256, 128), 64))

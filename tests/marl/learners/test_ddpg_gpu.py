"""DDPG's passes on a GPU learn what autograd learns, from plain and from packed rows, within rounding.

On a GPU by compiled kernels in bf16; without one by Triton's interpreter in fp32.
"""

import copy
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from helpers.collecting import CPU
from helpers.triton_kernels import need_triton

from arena.encoders import PACKINGS, encoder_named
from arena.rules import TEAM
from marl.compute.precision import Precision
from marl.compute.triton_kernels import triton_problem
from marl.config.learner_configs import DdpgConfig
from marl.config.network_config import NetworkConfig
from marl.config.reward_config import RewardConfig
from marl.config.train_config import TrainConfig
from marl.learners import ddpg
from marl.learners.ddpg import Ddpg
from marl.learners.ddpg_gpu import may_pass_stacked
from marl.learners.ddpg_kernels import STATS, GpuBatch, ddpg_gradients
from marl.learners.replay_buffer import ReplayBuffer
from marl.networks import stacked_pass, stacked_step, tail_tiles
from marl.networks.critics import expected_q
from marl.networks.tail_tiles import TailTile, TailTiles
from marl.ranks.process_group import Solo
from marl.rollout.assignment import MatchAssignment
from marl.rollout.rollout import Rollout
from marl.rollout.turn_kernels import NONE
from marl.storage.saver import on_host

SEED = 43
TURNS = 8
FIRST = 12  # gradients of an update: weights and biases of three layers, of two networks
HAS_CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if HAS_CUDA else CPU
BODY = (512, 256) if HAS_CUDA else (24, 20)
BATCH = 1200 if HAS_CUDA else 24
needs_triton = pytest.mark.skipif(HAS_CUDA and triton_problem(DEVICE) != "", reason="Triton's kernels cannot run")


@pytest.fixture
def kernels(monkeypatch) -> None:
    if not HAS_CUDA:
        monkeypatch.setattr(ddpg, "may_learn_on_gpu", lambda precision, layers: may_pass_stacked(layers))
        # Few steps: the interpreter takes long for each.
        tile = TailTile(64, 4, 2)
        monkeypatch.setattr(tail_tiles, "SMALL_TAIL", TailTiles(tile, tile, tile, 1))
        monkeypatch.setattr(stacked_pass, "PROGRAMS", 1)
        monkeypatch.setattr(stacked_pass, "BLOCK", 1 << 15)
        monkeypatch.setattr(stacked_step, "BLOCK", 1 << 15)
        monkeypatch.setattr(stacked_step, "PARTS", 2)
    need_triton()


@pytest.fixture(autouse=True)
def seed_printed() -> None:
    print(f"seed {SEED}")


def a_buffer(name: str, packed: bool, device: torch.device = DEVICE, matches: int = 6) -> ReplayBuffer:
    """Turns of real matches, with random moves."""
    packing = PACKINGS[name] if packed else None
    buffer = ReplayBuffer(TURNS, matches, encoder_named(name), device, 7, packing=packing)
    mix = {"level0": 1.0}
    rollout = Rollout(MatchAssignment(matches), tuple(mix), RewardConfig().weights(), buffer, SEED)
    rollout.set_mix(mix)
    rollout.arena.start()
    for _ in range(TURNS + 3):
        rollout.play_turn(lambda obs: torch.zeros(len(obs), 4, device=device))
    buffer.terminated[5, 1::2] = True
    return buffer


def a_learner(buffer: ReplayBuffer, fused: bool = False, masks_reversal: bool = True, **options) -> Ddpg:
    """A learner with noise in its weights: targets differ from the networks, and all of them from 0."""
    config = DdpgConfig(
        **({"batch_size": BATCH, "updates": 3, "a_lr": 1e-3, "c_lr": 1e-3, "max_grad_norm": 0.5} | options)
    )
    network = NetworkConfig(encoder=buffer.encoder.name, body=BODY)
    precision = Precision("bf16" if buffer.device.type == "cuda" else "fp32", buffer.device)
    made = Ddpg(config, network, buffer, Solo(buffer.device), precision, 1, SEED, masks_reversal, fused)
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for net in made.networks().values():
            for parameter in net.parameters():
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator).to(parameter.device))
    return made


@pytest.mark.parametrize(("masks_reversal", "uniform_kl"), [(True, 0.0), (True, 0.3), (False, 0.3)])
def test_the_compiled_gradients_are_those_of_the_losses(masks_reversal, uniform_kl) -> None:
    plain, packed = (a_buffer("planes", form, CPU) for form in (False, True))
    assert torch.equal(PACKINGS["planes"].unpack(packed.obs), plain.obs)
    made = a_learner(plain, False, masks_reversal, uniform_kl=uniform_kl, entropy=0.02)
    batch, rows = made.sampler.draw(), packed.sampler(made.batch_turns, 3, made.config.gamma).draw().rows
    for found, expected in zip(rows, batch.rows, strict=True):
        torch.testing.assert_close(found, expected)
    assert 0 < int((rows.discounts == 0).sum()) < len(rows.discounts)
    torch.manual_seed(SEED)
    snakes = TEAM * len(rows.idx)
    outputs, next_outputs = torch.randn(2, 2, snakes, 4).unbind()
    made_of = GpuBatch(
        rows, packed.obs.flatten(0, 1), outputs, next_outputs, outputs.clone(), torch.zeros(STATS, snakes)
    )
    direction_at = packed.row_encoder.direction_at if masks_reversal else NONE
    ddpg_gradients.bind(snakes, CPU, made_of, direction_at, 0.02, uniform_kl)()

    logits, q_values = outputs.view(2, -1, TEAM, 4).clone().requires_grad_()
    next_logits, next_q_values = next_outputs.view(2, -1, TEAM, 4)
    next_probs = made._masked(next_logits, batch.next_obs).softmax(-1)
    target = rows.returns + rows.discounts[:, None] * expected_q(next_q_values, next_probs)
    critic_loss = made._critic_loss(q_values[None], rows.actions, target)
    log_probs = made._masked(logits, batch.obs).log_softmax(-1)
    actor_loss, entropy, value = made._actor_loss(log_probs.exp(), log_probs, q_values.detach()[None])
    expected = *torch.autograd.grad(actor_loss, logits), *torch.autograd.grad(critic_loss, q_values)
    torch.testing.assert_close(made_of.gradients, torch.stack(expected).flatten(1, 2), rtol=1e-4, atol=1e-7)
    losses = torch.stack((critic_loss, actor_loss, entropy, value))
    torch.testing.assert_close(made_of.stats.mean(1), losses, rtol=1e-5, atol=1e-6)


def assert_near(
    found: torch.Tensor, expected: torch.Tensor, what: str, on_gpu: float = 0.05, on_cpu: float = 1e-4
) -> None:
    """The norm of the difference, as a share of the norm."""
    off = ((found.float() - expected.float()).norm() / expected.norm()).item()
    assert off < (on_gpu if HAS_CUDA else on_cpu), f"{what}: off by {off:.2g}, seed {SEED}"


class Learned(NamedTuple):
    """What a learner makes of its buffer."""

    outputs: torch.Tensor  # of the first weights
    gradients: list[torch.Tensor]  # of the first update, before clipping
    stats: torch.Tensor  # of three updates
    moved: dict[str, torch.Tensor]  # weights and targets, by three updates


def learned(made: Ddpg) -> Learned:
    began = {key: tensor.clone() for key, tensor in made.named_weights()}
    outputs = made.act(made.buffer.obs[3].flatten(0, 1)).float().clone()
    gradients: list[torch.Tensor] = []
    step = made._precision.optimizer_step

    def keep(optimizer, *rest):
        gradients.extend(p.grad.clone() for p in optimizer.param_groups[0]["params"])
        return step(optimizer, *rest)

    made._precision.optimizer_step = keep
    made.anneal(1.0, 0.0)
    passes = made._gpu_passes
    if passes is not None:  # they step by themselves
        backward = passes.backward

        def keep_flat(*rest):
            backward(*rest)
            gradients.extend(gradient.clone() for each in made._gradients.of for gradient in each)

        passes.backward = keep_flat
    made.learn()
    moved = {key: tensor - began[key] for key, tensor in made.named_weights()}
    return Learned(outputs, gradients[:FIRST], made.pop_stats().clone(), moved)


@needs_triton
@pytest.mark.parametrize(
    ("name", "packed", "options"),
    [("planes", True, {}), ("tactical", False, {"uniform_kl": 0.1}), *([("planes", False, {})] * HAS_CUDA)],
)
def test_updates_are_those_of_autograd(kernels, name, packed, options) -> None:
    plain = a_learner(a_buffer(name, False), **options)
    made = a_learner(a_buffer(name, packed), True, **options)
    assert plain._gpu_passes is None
    assert made._gpu_passes is not None
    expected, found = learned(plain), learned(made)
    assert_near(found.outputs, expected.outputs, "outputs")
    for i, (a, b) in enumerate(zip(found.gradients, expected.gradients, strict=True)):
        assert_near(a, b, f"gradient {i}")
    assert_near(found.stats, expected.stats, "statistics")
    assert found.stats[0] == expected.stats[0] == 3
    for (
        key,
        tensor,
    ) in expected.moved.items():  # Adam's first steps have the size of the rate: rounding turns small ones
        assert_near(found.moved[key], tensor, key, 0.3, 1e-2)
    for key, tensor in plain.last_batch().items():
        torch.testing.assert_close(made.last_batch()[key], tensor)


@needs_triton
@pytest.mark.parametrize(("saves_packed", "loads_packed"), [(True, True), (False, True), (True, False)])
def test_a_checkpoint_of_one_kind_goes_on_as_the_other(kernels, saves_packed, loads_packed) -> None:
    """To the bit if both are of the same kind; else within rounding: plain rows are learned from by autograd here."""

    def made(packed: bool) -> Ddpg:
        return a_learner(a_buffer("planes", packed), packed, updates=1)

    first, second = made(saves_packed), made(loads_packed)
    for learner in (first, second):
        learner.anneal(1.0, 0.0)
    first.learn()
    second.buffer.obs.zero_()
    second.load_weights(dict(first.named_weights()))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    second.load_rank_state(copy.deepcopy(first.rank_state()))
    began = {key: tensor.clone() for key, tensor in first.named_weights()}
    for learner in (first, second):
        learner.learn()
    moved = {key: tensor - began[key] for key, tensor in second.named_weights()}
    for key, tensor in first.named_weights():
        if saves_packed == loads_packed:
            assert torch.equal(moved[key], tensor - began[key]), f"{key}, seed {SEED}"
        else:
            assert_near(moved[key], tensor - began[key], key, 0.3, 1e-2)
    assert second.buffer.counts.tolist() == first.buffer.counts.tolist()


def test_plain_rows_of_a_checkpoint_are_packed_and_packed_ones_unpacked() -> None:
    plain, packed = (a_buffer("planes", form, CPU) for form in (False, True))
    for saved, other in ((plain, packed), (packed, plain)):
        fresh = ReplayBuffer(TURNS, saved.teams, saved.encoder, CPU, 7, packing=other.packing)
        fresh.load_state_dict(on_host(saved.written()))
        for name, rows in other.written().items():
            assert torch.equal(fresh.written()[name], rows), name


def test_packed_rows_are_for_plain_ddpg_with_two_dense_layers(monkeypatch) -> None:
    monkeypatch.setattr(ddpg, "usable_packing", lambda network, precision: PACKINGS.get(network.encoder))
    precision = Precision("bf16", CPU)
    default = TrainConfig(network=NetworkConfig(encoder="planes", body=(512, 256)))
    assert Ddpg.packing_for(default, precision) is PACKINGS["planes"]

    class OtherLoss(Ddpg):
        def _critic_loss(self, q_values, actions, target):
            return super()._critic_loss(q_values, actions, target)

    assert OtherLoss.packing_for(default, precision) is None
    for other in (
        {"packed": False},
        {"fused": False},
        {"network": replace(default.network, body=(512, 256, 128))},
        {"network": replace(default.network, body=(1024, 512))},
        {"network": replace(default.network, messages=True)},
        {"network": replace(default.network, encoder="features")},
        {"ddp": replace(default.ddp, sync_freq=2)},
        {"ddpg": DdpgConfig(critic="team")},
        {"ddpg": DdpgConfig(critic_form="joined")},
        {"ddpg": DdpgConfig(twin=True)},
        {"ddpg": DdpgConfig(policy_delay=2)},
        {"ddpg": DdpgConfig(target_noise=0.2)},
    ):
        assert Ddpg.packing_for(replace(default, **other), precision) is None, other


@pytest.mark.needs_cuda
@needs_triton
def test_updates_are_recorded_as_graphs_and_replayed() -> None:
    """Three updates as they are, one recorded, two replayed: each moves all weights, all stay finite."""
    from arena.backends.cuda_graphs import Captured

    made = a_learner(a_buffer("planes", True, matches=64), True, updates=1)
    made.anneal(1.0, 0.0)
    update, before = Captured(made.learn, DEVICE, True), {}
    for number in range(6):
        update()
        weights = {key: tensor.clone() for key, tensor in made.named_weights()}
        for key, tensor in weights.items():
            assert tensor.isfinite().all(), f"{key}, update {number}, seed {SEED}"
            assert key not in before or not torch.equal(tensor, before[key]), f"{key}, update {number}, seed {SEED}"
        before = weights
    assert made.pop_stats()[0] == 6

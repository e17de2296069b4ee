"""Passes without autograd give the outputs and gradients of the modules and autograd, to the bit (compiled ones on x86:
within rounding)."""

import platform
from dataclasses import replace

import pytest
import torch

from arena.encoders import encoder_named
from marl.fast import blas
from marl.fast.dense_pass import DenseInference, DensePass, dense_layers, proven_layers
from marl.learners.adam import Adam, views_of
from marl.networks.actors import Actor, make_actor
from marl.networks.critics import CentralCritic, Critic
from marl.networks.spec import NetworkSpec

SEED = 11
FEATURES, SPEC = encoder_named("features"), NetworkSpec((24, 16), 5)
pytestmark = pytest.mark.usefixtures("one_thread", "without_onednn")


@pytest.fixture
def without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run on ARM mostly is; on x86 nothing changes."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)


@pytest.mark.parametrize("body", [(24, 16), (40, 24, 8)], ids=str)
@pytest.mark.parametrize("rows", [3, 72, 300])
@pytest.mark.parametrize("function", [*blas.NAMES, None])
def test_outputs_and_gradients_are_those_of_autograd(body, rows, function, monkeypatch) -> None:
    print(f"seed {SEED}")
    assert blas.is_usable()
    if function and not blas._address(function):
        pytest.skip(f"torch shows no {function}")
    monkeypatch.setattr(blas, "sgemm_name", lambda: function)
    tolerance = 0.0 if function is None or platform.machine() in ("aarch64", "arm64") else 1e-5
    torch.manual_seed(SEED)
    actor = make_actor(FEATURES, replace(SPEC, body=body))
    critic = Critic(FEATURES, replace(SPEC, body=body), "heads", False)
    optimizers = [Adam(network, 0.1) for network in (actor, critic)]
    obs = torch.randint(0, 3, (rows // 3, 3, FEATURES.width), dtype=torch.uint8)
    probs = torch.rand(rows // 3, 3, 4)
    for network, outputs, optimizer in (
        (actor, actor(obs), optimizers[0]),
        (critic, critic(obs, probs), optimizers[1]),
    ):
        found = views_of(optimizer.gradients, optimizer.parameters)
        dense = DensePass(dense_layers(network), obs.flatten(0, 1).float())
        assert (dense.compiled is None) == (function is None)
        by_outputs = torch.zeros(outputs.shape)
        backward = dense.bind_backward(by_outputs.flatten(0, 1), found)
        for _ in range(2):  # the second time over what the first one left
            by_outputs.normal_()
            network.zero_grad()
            outputs.backward(by_outputs, retain_graph=True)
            torch.testing.assert_close(dense.forward(), outputs.flatten(0, 1), rtol=tolerance, atol=tolerance)
            backward()
            for gradient, (name, parameter) in zip(found, network.named_parameters(), strict=True):
                torch.testing.assert_close(gradient, parameter.grad, rtol=tolerance, atol=tolerance, msg=name)


def test_inference_sees_new_weights_and_keeps_old_outputs() -> None:
    torch.manual_seed(SEED)
    actor = make_actor(FEATURES, SPEC)
    infer, obs = DenseInference(dense_layers(actor)), torch.randint(0, 3, (12, FEATURES.width), dtype=torch.uint8)
    before = infer(obs)
    kept = before.clone()
    actor.load_state_dict({name: 1.5 * tensor for name, tensor in actor.state_dict().items()})
    for part in (obs, obs[:6], obs[6:], obs):
        with torch.no_grad():
            assert torch.equal(infer(part), actor(part)), f"seed {SEED}"
    assert torch.equal(before, kept)


def test_parts_of_the_same_length_have_tensors_of_their_own() -> None:
    """Both halves of the snakes are computed at once."""
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    actor = make_actor(FEATURES, SPEC)
    infer, obs = DenseInference(dense_layers(actor)), torch.randint(0, 3, (12, FEATURES.width), dtype=torch.uint8)
    for _ in range(2):
        for part in (obs[:6], obs[6:]):
            infer(part)
    first, second = (dense.outputs for _, dense in infer._passes.values())
    with torch.no_grad():
        torch.testing.assert_close(first, actor(obs[:6]), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(second, actor(obs[6:]), rtol=1e-5, atol=1e-5)


def test_other_networks_are_left_to_autograd() -> None:
    planes = encoder_named("planes")
    others = [
        make_actor(FEATURES, replace(SPEC, messages=True)),
        make_actor(FEATURES, replace(SPEC, lstm_size=8)),
        make_actor(planes, replace(SPEC, channels=(2, 2), kind="cnn")),
        Critic(FEATURES, SPEC, "joined", False),
        Critic(FEATURES, SPEC, "heads", True),
        CentralCritic(FEATURES, SPEC),
    ]
    assert [dense_layers(network) for network in others] == [None] * len(others)
    assert dense_layers(make_actor(planes, SPEC)) is not None


def test_an_actor_with_a_forward_of_its_own_has_no_proven_layers(monkeypatch) -> None:
    actor = make_actor(FEATURES, SPEC)
    assert proven_layers(actor, FEATURES) is not None
    monkeypatch.setattr(Actor, "forward", lambda self, obs: self.tail(self.first_layer(obs).tanh()))
    assert proven_layers(actor, FEATURES) is None

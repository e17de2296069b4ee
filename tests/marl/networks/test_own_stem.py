"""Stems of users: they train, load, play, plan and are exported like ours; files that do not fit them are refused."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.command import assert_one_line
from helpers.training import TINY, here, the_run
from torch import nn
from torch.nn import functional as F

import marl
from arena.encoders import encoder_named
from marl import registry
from marl.config.autoscale import resolve
from marl.config.train_config import read_config
from marl.errors import UserError
from marl.networks.actors import make_actor
from marl.networks.policy import build_actor, describe_actor
from marl.networks.spec import NetworkSpec
from marl.networks.stems import DenseStem
from marl.ranks.process_group import Solo
from marl.storage import snapshot
from marl.training.training_state import TrainingState

SEED = 11
CPU = torch.device("cpu")
FEATURES = encoder_named("features")


class Gelu(DenseStem):
    """A dense layer and GELU: its weights have the names and the shapes of a DenseStem's."""

    def forward(self, obs):
        return F.gelu(super().forward(obs))


class Attentive(nn.Module):
    """Layers whose sizes stand in no option; drops out while it learns."""

    def __init__(self, encoder, spec):
        super().__init__()
        self.register_buffer("scale", torch.from_numpy(encoder.scale.copy()))
        self.parts = nn.Linear(encoder.width, 5 * 7)
        self.norm = nn.LayerNorm(7)
        self.out = nn.Linear(7, spec.body[0])

    def forward(self, obs):
        parts = self.norm(self.parts(obs.float() * self.scale).unflatten(-1, (5, 7)))
        mixed = (parts @ parts.transpose(-1, -2)).softmax(-1) @ parts
        return self.out(F.dropout(mixed.mean(-2), 0.5, self.training))


@pytest.fixture(autouse=True)
def own_kinds(monkeypatch):
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    for name, stem in {"gelu": Gelu, "attentive": Attentive}.items():
        monkeypatch.setitem(registry.NETWORKS, name, stem)


def described(kind: str, **sizes) -> tuple[nn.Module, dict]:
    spec = NetworkSpec(**{"body": (16, 8), "channels": (32, 32), "kind": kind} | sizes)
    return make_actor(FEATURES, spec), json.loads(json.dumps(describe_actor(FEATURES, spec)))


@pytest.fixture(scope="module", params=["gelu", "attentive"])
def run(request, tmp_path_factory) -> tuple[str, Path, str]:
    """A kind, a run with it, and what its training said."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.NETWORKS, request.param, {"gelu": Gelu, "attentive": Attentive}[request.param])
        words = ["--encoder", "features", "--body", "16,8", "--algo", "ddpg", "--max_episodes", "8"]
        done = here(*TINY, *words, "--kind", request.param, "--runs_dir", folder)
        assert done.returncode == 0, done.stderr
    return request.param, the_run(folder), done.stdout


def test_the_banner_says_what_it_is(run) -> None:
    kind, _, said = run
    name = {"gelu": "Gelu", "attentive": "Attentive"}[kind]
    assert re.search(rf"network +features -> {kind} \({name}\) 16 -> 8,", said)
    assert "convolution" not in said


def test_it_resumes_and_plays(run, tmp_path) -> None:
    _, folder, _ = run
    assert here("eval", "--home", folder, "--away", "level0", "--matches", "2", "--device", "cpu").returncode == 0
    player = marl.load(str(folder))
    rows = torch.randint(0, 2, (12, FEATURES.width), dtype=torch.int8)
    assert torch.equal(player.actor(rows), player.actor(rows)), "nothing is dropped out in a match"
    resumed = here("train", "--resume", folder, "--max_episodes", "12")
    assert resumed.returncode == 0, resumed.stderr


def test_it_plans(run) -> None:
    _, folder, _ = run
    words = ("--home", f"plan=2x2:{folder}", "--away", "level0", "--matches", "1", "--device", "cpu")
    done = here("eval", *words)
    assert done.returncode == 0, done.stderr


def test_it_is_exported(run, tmp_path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    kind, folder, _ = run
    done = here("export", folder, "--onnx", tmp_path / "it.onnx", "--safetensors", tmp_path / "it.safetensors")
    assert done.returncode == 0, done.stderr
    session = onnxruntime.InferenceSession(tmp_path / "it.onnx", providers=["CPUExecutionProvider"])
    assert json.loads(session.get_modelmeta().custom_metadata_map["encoder"]) == "features"
    player = snapshot.read(tmp_path / "it.safetensors")
    assert player.actor.spec.kind == kind
    rows = np.random.default_rng(SEED).integers(-1, 3, (10, FEATURES.width)).astype(np.int8)
    for count in (1, 10):
        (logits,) = session.run(None, {"observations": rows[:count]})
        assert np.allclose(logits, player.actor(torch.from_numpy(rows[:count])).numpy(), atol=1e-4)
    refused = here("export", folder, "--jidi", tmp_path / "sent")
    assert_one_line(refused, "its network cannot be exported", "need dense layers with ReLU", "--onnx writes any")


def test_a_network_that_onnx_cannot_write_is_one_line(monkeypatch, tmp_path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")

    class Sorted(DenseStem):
        def forward(self, obs):
            return torch.special.bessel_j0(super().forward(obs))

    monkeypatch.setitem(registry.NETWORKS, "sorted", Sorted)
    actor, about = described("sorted")
    snapshot.write(tmp_path / "it.safetensors", actor.state_dict(), about)
    done = here("export", tmp_path / "it.safetensors", "--onnx", tmp_path / "it.onnx")
    assert_one_line(done, "torch cannot write its network, of kind sorted, as ONNX")
    assert not (tmp_path / "it.onnx").exists()


def test_a_network_with_memory_is_no_onnx(tmp_path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    actor, about = described("gelu", lstm_size=6)
    snapshot.write(tmp_path / "it.safetensors", actor.state_dict(), about)
    done = here("export", tmp_path / "it.safetensors", "--onnx", tmp_path / "it.onnx")
    assert_one_line(done, "LSTM", "--safetensors")


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gelu", "attentive", "mlp"])
@pytest.mark.parametrize(
    "change",
    [
        {"body": [16, 9]},
        {"body": [16, 10**12]},
        {"body": [10**9, 8]},
        {"body": [1] * 100_000},
        {"channels": [3] * 100_000},
        {"body": [16, 8.0]},
        {"body": [True, 8]},
        {"body": [-16, 8]},
        {"lstm_size": 10**10},
        {"kind": "cnn", "channels": [10**9]},
        {"kind": {"gelu": 1}},
        {"outputs": 10**10},
    ],
)
def test_a_file_that_names_other_sizes_is_refused_and_takes_no_memory(kind, change) -> None:
    actor, about = described(kind)
    build_actor(about, actor.state_dict(), "it")
    with pytest.raises(UserError, match=r"^it: its weights are not those of the network that it names$"):
        build_actor(about | change, actor.state_dict(), "it")


def test_a_kind_that_is_not_imported_is_asked_for() -> None:
    actor, about = described("gelu")
    with pytest.raises(UserError, match="it: unknown network kind 'narrow'; one of your own comes by --import FILE"):
        build_actor(about | {"kind": "narrow"}, actor.state_dict(), "it")


# --- mistakes in a stem, at the start of a run ------------------------------------------------------------------------


class NoArguments(nn.Module):
    def __init__(self):
        super().__init__()


class LooksAtItsWeights(DenseStem):
    def __init__(self, encoder, spec):
        super().__init__(encoder, spec)
        self.largest = self.weight.max().item()


class Narrow(DenseStem):
    def __init__(self, encoder, spec):
        super().__init__(encoder, replace(spec, body=(5,)))


class WrongOrder(nn.Module):
    def __init__(self, encoder, spec):
        super().__init__()
        self.layer = nn.Linear(spec.body[0], encoder.width)

    def forward(self, obs):
        return self.layer(obs.float())


@pytest.mark.parametrize(
    ("stem", "part"),
    [
        (NoArguments, "network kind wrong cannot be built from (encoder, spec) on torch's device meta: "),
        (LooksAtItsWeights, "test_own_stem.py, line "),
        (Narrow, "network kind wrong maps [6, 80] to [6, 5]; need [6, 16]: the first number of --body is its width"),
        (WrongOrder, "network kind wrong cannot read observations [6, 80] of torch.int8: "),
    ],
)
def test_a_mistake_is_told_before_the_run_begins(stem, part, monkeypatch) -> None:
    monkeypatch.setitem(registry.NETWORKS, "wrong", stem)
    words = ["--algo", "ppo", "--kind", "wrong", "--encoder", "features", "--device", "cpu", "--matches", "8"]
    config = resolve(read_config([*words, "--body", "16", "--update_interval", "64", "--batch_size", "48"]), CPU)
    with pytest.raises(UserError, match=re.escape(part)) as error:
        TrainingState(config, Solo(CPU))
    assert "\n" not in str(error.value)

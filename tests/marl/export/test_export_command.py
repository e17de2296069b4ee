"""snakes export: the files it writes, that they say what torch says, and its mistakes in one line."""

import json
import sys

import numpy as np
import pytest
import torch
from helpers.command import assert_one_line, snakes
from helpers.exporting import BODIES, ENCODERS, actor, games, player, rows, saved_run
from helpers.training import alone, here

from arena import encoders
from arena.encoders import encoder_named
from arena.encoders.orientation import BOARD_ACTIONS
from arena.extras import install_hint
from arena.rules import TURNS
from marl.errors import UserError
from marl.export import play_page
from marl.export.dense_layers import forward, policy_layers, widths
from marl.networks.actors import make_actor
from marl.networks.spec import NetworkSpec
from marl.storage.policy_player import PolicyPlayer
from marl.storage.snapshot import read


@pytest.fixture(scope="module", params=ENCODERS)
def exported(request, tmp_path_factory):
    """An encoder, and the folder with what a real command made of a run that uses it."""
    pytest.importorskip("onnx", reason="onnx is not installed")
    folder = tmp_path_factory.mktemp(request.param)
    run = saved_run(folder, request.param)
    names = {"--jidi": "sent", "--onnx": "it.onnx", "--safetensors": "it.safetensors"}
    if request.param in play_page.ENCODERS:
        names["--html"] = "it.html"
    words = [str(word) for flag, name in names.items() for word in (flag, folder / name)]
    once = alone if request.param == "features" else here  # once in a process of its own
    result = once("export", str(run), *words)
    assert result.returncode == 0, result.stderr
    said = [line.split("  ")[0] for line in result.stdout.splitlines()]
    assert said == [str(folder / {"sent": "sent/submission.py"}.get(name, name)) for name in names.values()]
    return request.param, folder


def test_nothing_else_is_written(exported) -> None:
    encoder, folder = exported
    page = ["it.html"] if encoder in play_page.ENCODERS else []
    wanted = [*page, "it.onnx", "it.safetensors", f"run_{encoder}", "sent"]
    assert sorted(path.name for path in folder.iterdir()) == wanted
    assert [path.name for path in (folder / "sent").iterdir()] == ["submission.py"]


# --- onnx -------------------------------------------------------------------------------------------------------------


def some_rows(encoder: str) -> np.ndarray:
    return rows(encoder)[::7, ::10].reshape(-1, rows(encoder).shape[-1])


def test_the_onnx_model_says_what_torch_says(exported) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    encoder, folder = exported
    session = onnxruntime.InferenceSession(folder / "it.onnx", providers=["CPUExecutionProvider"])
    (given,), (told,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.type) == ("observations", "tensor(uint8)" if encoder == "planes" else "tensor(int8)")
    assert given.shape == ["N", rows(encoder).shape[-1]]
    assert (told.name, told.shape) == ("logits", ["N", 4])
    obs = some_rows(encoder)
    expected = actor(encoder)(torch.from_numpy(obs)).numpy()
    for count in (1, len(obs)):
        (logits,) = session.run(None, {"observations": obs[:count]})
        assert np.abs(logits - expected[:count]).max() < 1e-4
    described = encoder_named(encoder)
    about = {name: json.loads(value) for name, value in session.get_modelmeta().custom_metadata_map.items()}
    assert about == {
        "encoder": encoder, "encoder_version": 1, "body": list(BODIES[encoder]), "rules": 1,
        "moves": ["up", "down", "left", "right"], "direction_at": described.direction_at,
        "frame_at": described.orientation_at,
        **({"back": BOARD_ACTIONS.tolist()} if described.orientation_at is not None else {}),
    }  # fmt: skip


def test_the_onnx_model_of_a_policy_with_a_value_tells_it() -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from marl.export.onnx import onnx_model

    who, obs = player("features", value=True), some_rows("features")
    session = onnxruntime.InferenceSession(onnx_model(policy_layers(who), who.encoder))
    logits, value = session.run(["logits", "value"], {"observations": obs})
    assert np.abs(np.hstack([logits, value]) - who.actor(torch.from_numpy(obs)).numpy()).max() < 1e-4


def test_without_onnx_the_command_says_what_to_install(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert_one_line(here("export", "anything", "--onnx", tmp_path / "x.onnx"), "--onnx", install_hint("onnx"))


# --- safetensors ------------------------------------------------------------------------------------------------------


def test_the_safetensors_file_is_a_snapshot_of_the_same_policy(exported) -> None:
    encoder, folder = exported
    again, obs = read(folder / "it.safetensors"), torch.from_numpy(some_rows(encoder))
    assert again.encoder.name == encoder
    assert torch.equal(again.actor(obs), actor(encoder)(obs))


# --- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [False, True])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_layers_compute_what_the_actor_computes(encoder, value) -> None:
    who, obs = player(encoder, value), some_rows(encoder)
    layers = policy_layers(who)
    assert widths(layers) == [obs.shape[-1], *BODIES[encoder], 5 if value else 4]
    assert all(part.dtype == np.float32 for layer in layers for part in layer)
    assert np.abs(forward(layers, obs) - who.actor(torch.from_numpy(obs)).numpy()).max() < 1e-4


REFUSED = {
    "convolutions": NetworkSpec((16, 8), channels=(4,)),
    "messages": NetworkSpec((16, 8), messages=True),
    "memory": NetworkSpec((16, 8), lstm_size=8),
    "too many outputs": NetworkSpec((16, 8), outputs=6),
}


@pytest.mark.parametrize("shape", REFUSED.values(), ids=REFUSED)
def test_other_networks_are_refused(shape) -> None:
    encoder = encoder_named("planes")
    who = PolicyPlayer(make_actor(encoder, shape).requires_grad_(False), encoder, "runs/odd")
    with pytest.raises(
        UserError, match=r"^runs/odd: its network cannot be exported: it .*; need dense layers"
    ) as error:
        policy_layers(who)
    assert "\n" not in str(error.value)


def test_layers_that_are_joined_otherwise_are_refused(monkeypatch) -> None:
    who = player("features")
    monkeypatch.setattr("torch.nn.functional.relu", torch.tanh)
    with pytest.raises(UserError, match="not joined by ReLU"):
        policy_layers(who)


# --- mistakes ---------------------------------------------------------------------------------------------------------

MISTAKES = {
    "no player": ([], ["PLAYER"]),
    "nothing to write": (["runs/x"], ["--jidi", "--onnx", "--safetensors", "--html"]),
    "no folder": (["runs/x", "--html", "no/such/page.html"], ["--html", "no/such"]),
    "a file as a folder": (["runs/x", "--jidi", "README.md"], ["--jidi", "README.md", "folder"]),
    "no folder for the folder": (["runs/x", "--jidi", "no/such/folder"], ["--jidi", "no/such"]),
    "a folder as a file": (["runs/x", "--safetensors", "tests"], ["--safetensors", "tests"]),
    "unknown flag": (["runs/x", "--pickle", "x"], ["--pickle", "--jidi"]),
    "scripted": (["level3", "--html", "x.html"], ["level3", "scripted"]),
    "scripted with noise": (["level3:0.2", "--html", "x.html"], ["level3:0.2", "scripted"]),
    "no such run": (["runs/no_such_run", "--html", "x.html"], ["runs/no_such_run"]),
}


@pytest.mark.parametrize(("words", "parts"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_in_one_line(words, parts) -> None:
    assert_one_line(here("export", *words), *parts)


def test_a_file_that_cannot_be_written_is_told(tmp_path) -> None:
    run = saved_run(tmp_path, "features")
    (tmp_path / "sent" / "submission.py").mkdir(parents=True)
    assert_one_line(here("export", run, "--jidi", tmp_path / "sent"), "cannot write", "submission.py")


@pytest.mark.parametrize("flag", ["--jidi", "--html"])
def test_an_encoder_that_the_output_cannot_compute_is_refused_before_anything_is_written(
    flag, tmp_path, monkeypatch
) -> None:
    monkeypatch.setitem(encoders.ENCODERS, "mini", encoder_named("features")._replace(name="mini"))
    monkeypatch.setitem(BODIES, "mini", BODIES["features"])
    run = saved_run(tmp_path, "mini")
    result = here("export", run, "--safetensors", tmp_path / "it.safetensors", flag, tmp_path / "out")
    assert_one_line(
        result,
        flag,
        "'mini'",
        "known: canonical, egocentric, features",
        "--safetensors",
    )
    assert list(tmp_path.iterdir()) == [run]
    result = here("export", run, "--safetensors", tmp_path / "it.safetensors")
    assert result.returncode == 0, result.stderr


def test_help_comes_without_torch() -> None:
    result = snakes("export", "--help", env={"PYTHONPATH": "", "PATH": "", "PYTHONVERBOSE": "1"})
    assert result.returncode == 0
    assert "--jidi" in result.stdout
    assert "import 'torch'" not in result.stderr


def test_the_recorded_games_are_whole() -> None:
    assert [len(game) for game in games()] == [TURNS] * 28

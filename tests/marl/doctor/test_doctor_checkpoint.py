"""snakes doctor PATH: the contents of a checkpoint, and every damage that it must find."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from helpers.training import TINY, here, the_run

from arena.encoders import encoder_named
from marl.networks import policy
from marl.networks.actors import Actor
from marl.networks.spec import NetworkSpec
from marl.storage import checkpoint, checkpoint_writer
from marl.storage.checkpoint import MANIFEST, WEIGHTS

ENCODER = encoder_named("features")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    run = tmp_path_factory.mktemp("saved") / "run"
    run.mkdir()
    weights = {f"actor.{name}": tensor for name, tensor in Actor(ENCODER, NetworkSpec((8,))).state_dict().items()}
    parts = {"state": {"learner": [{"exp_avg": torch.ones(3)}]}, "rank0": {"buffer": torch.zeros(5)}}
    about = policy.describe_actor(ENCODER, NetworkSpec((8,))) | {"algo": "ddpg", "world_size": 2}
    for episode in (8, 16):
        folder = checkpoint_writer.save(run, episode, weights, parts, about)
    checkpoint_writer.mark_best(run, folder)
    return run


@pytest.fixture
def run(saved, tmp_path):
    """A run with the checkpoints episode_8 and episode_16, for the test alone."""
    return Path(shutil.copytree(saved, tmp_path / "run"))


@pytest.fixture
def folder(run):
    return run / "checkpoints" / "episode_16"


def examine(path):
    result = here("doctor", path, "--json")
    assert result.stderr == ""
    report = json.loads(result.stdout)
    assert report["ok"] is (result.returncode == 0)
    assert result.returncode in (0, 1)
    return report


def failures(report):
    found = {check["name"]: check for check in report["checks"] if not check["ok"]}
    for check in found.values():
        assert check["fix"]
        assert "\n" not in check["detail"] + check["fix"]
    return found


def rewrite(folder, weights=None, state=None, **about):
    """Write it again as someone would who knows how it is made."""
    found = checkpoint.read(folder)
    parts = {"state": state or found.part("state"), "rank0": found.part("rank0")}
    manifest = {name: value for name, value in found.manifest.items() if name != "files"}
    checkpoint_writer._write_folder(folder, manifest | about, weights or found.weights, parts)


def test_what_is_in_a_checkpoint(folder):
    report = examine(folder)
    assert failures(report) == {}
    (about,) = report["checkpoints"]
    assert about["path"] == str(folder)
    assert (about["episode"], about["world_size"], about["rules"], about["algo"]) == (16, 2, 1, "ddpg")
    assert (about["encoder"], about["encoder_version"], about["body"]) == ("features", ENCODER.version, [8])
    assert about["parts"] == ["rank0", "state"]
    assert about["files"] == {path.name: path.stat().st_size for path in folder.iterdir()}
    assert about["weights"] == sum(p.numel() for p in Actor(ENCODER, NetworkSpec((8,))).parameters())
    assert [check["name"].partition(" ")[0] for check in report["checks"]] == [
        "packages", "files", "names", "weights", "player",
    ]  # fmt: skip


def test_a_run_and_its_pointers_mean_the_same_checkpoint(run, folder):
    for path in (run, run / "checkpoints", run / "checkpoints" / "last", run / "checkpoints" / "best"):
        report = examine(path)
        assert failures(report) == {}
        assert [Path(about["path"]).name for about in report["checkpoints"]] == ["episode_16"]


def test_best_is_looked_at_too(run):
    checkpoint_writer.mark_best(run, run / "checkpoints" / "episode_8")
    report = examine(run)
    assert [about["episode"] for about in report["checkpoints"]] == [16, 8]
    flip(run / "checkpoints" / "episode_8" / WEIGHTS)
    assert list(failures(examine(run))) == ["files of episode_8"]


def test_text(run):
    result = here("doctor", run)
    assert result.returncode == 0
    for part in ("episode 16", "features -> 8", "weights.safetensors", "ranks: 2", "rules version 1"):
        assert part in result.stdout
    assert result.stdout.count("\nok ") == 5


def test_a_run_of_training_is_in_order(tmp_path):
    assert here(*TINY, "--runs_dir", tmp_path).returncode == 0
    report = examine(the_run(tmp_path))
    assert failures(report) == {}
    assert report["checkpoints"][0]["episode"] == 16


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def edit_manifest(folder: Path, **changes) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | changes))


DAMAGES = {
    "flipped bit in the weights": (lambda folder: flip(folder / WEIGHTS), "weights.safetensors is damaged"),
    "flipped bit in a part": (lambda folder: flip(folder / "state.pt"), "state.pt is damaged"),
    "truncated weights": (lambda folder: os.truncate(folder / WEIGHTS, 100), "100 bytes instead of"),
    "truncated part": (lambda folder: os.truncate(folder / "rank0.pt", 0), "rank0.pt is damaged: 0 bytes"),
    "missing weights": (lambda folder: (folder / WEIGHTS).unlink(), "weights.safetensors is missing"),
    "missing part": (lambda folder: (folder / "state.pt").unlink(), "state.pt is missing"),
    "missing manifest": (lambda folder: (folder / MANIFEST).unlink(), "manifest.json is missing"),
    "manifest edited": (lambda folder: edit_manifest(folder, episode=17), "manifest.json is damaged"),
    "manifest no JSON": (lambda folder: (folder / MANIFEST).write_text("{"), "manifest.json is damaged"),
    "manifest of another kind": (lambda folder: (folder / MANIFEST).write_text("[]"), "manifest.json is damaged"),
    "other rules": (lambda folder: rewrite(folder, rules=99), "was made for rules 99"),
    "other format": (lambda folder: rewrite(folder, format=99), "format 99"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named(folder, damage):
    act, words = DAMAGES[damage]
    act(folder)
    found = failures(examine(folder))
    assert list(found) == ["files of episode_16"]
    assert words in found["files of episode_16"]["detail"]
    text = here("doctor", folder)
    assert text.returncode == 1
    assert [line[:6] for line in text.stdout.splitlines() if words in line] == ["FAILED"]


def test_names_of_a_wrapped_network(folder):
    weights = checkpoint.read(folder).weights
    wrapped = {name.replace("actor.", "actor.module."): tensor for name, tensor in weights.items()}
    rewrite(folder, wrapped)
    found = failures(examine(folder))
    assert set(found) == {"names of episode_16", "player of episode_16"}
    assert "actor.module." in found["names of episode_16"]["detail"]


def test_names_of_a_wrapped_network_in_a_part(folder):
    rewrite(folder, state={"learner": [{"module.weight": torch.ones(1)}]})
    found = failures(examine(folder))
    assert list(found) == ["names of episode_16"]
    assert "1 in state" in found["names of episode_16"]["detail"]


def test_a_wrapped_network_is_seen_in_a_file_whose_sum_is_wrong_as_well(folder, run):
    other = run / "checkpoints" / "episode_8"
    rewrite(other, {f"module.{name}": tensor for name, tensor in checkpoint.read(other).weights.items()})
    shutil.copy(other / WEIGHTS, folder / WEIGHTS)
    assert set(failures(examine(folder))) == {"files of episode_16", "names of episode_16"}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(folder, value):
    weights = checkpoint.read(folder).weights
    name = min(weights)
    weights[name].view(-1)[0] = value
    rewrite(folder, weights)
    found = failures(examine(folder))
    assert list(found) == ["weights of episode_16"]
    assert name in found["weights of episode_16"]["detail"]


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"encoder_version": 99}, "version 99 of encoder features"),
        ({"encoder": "dreams"}, "dreams"),
        ({"body": [9]}, "not those of the network"),
        ({"body": None}, "not those of the network"),
    ],
    ids=str,
)
def test_a_checkpoint_that_cannot_play(folder, about, words):
    rewrite(folder, **about)
    found = failures(examine(folder))
    assert list(found) == ["player of episode_16"]
    assert words in found["player of episode_16"]["detail"]


def test_a_pickle_that_runs_code_is_not_read(folder, tmp_path):
    class Enemy:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "executed"),))

    torch.save({"module": Enemy()}, folder / "state.pt")
    stamps = json.loads((folder / MANIFEST).read_text())
    stamps.pop("sha256")
    stamps["files"]["state.pt"] = {
        "size": (folder / "state.pt").stat().st_size,
        "sha256": checkpoint._sha256(folder / "state.pt"),
    }
    (folder / MANIFEST).write_text(json.dumps(stamps | {"sha256": checkpoint.manifest_sha256(stamps)}))
    assert zipfile.is_zipfile(folder / "state.pt")
    found = failures(examine(folder))
    assert list(found) == ["names of episode_16"]
    assert "state.pt" in found["names of episode_16"]["detail"]
    assert not (tmp_path / "executed").exists()


def test_a_pointer_that_leads_nowhere(run):
    (run / "checkpoints" / "last").write_text("episode_99\n")
    found = failures(examine(run))
    assert list(found) == ["last"]
    assert "episode_8, episode_16" in found["last"]["detail"]
    shutil.rmtree(run / "checkpoints" / "episode_16")
    report = examine(run)  # both pointers are broken: the checkpoint that training would resume is examined
    assert list(failures(report)) == ["last", "best"]
    assert [about["episode"] for about in report["checkpoints"]] == [8]


def test_a_folder_that_is_no_run_fails(tmp_path):
    (tmp_path / "empty").mkdir()
    assert "manifest.json" in failures(examine(tmp_path / "empty"))["empty"]["detail"]


@pytest.mark.parametrize("path", ["nothing", "checkpoints/episode_99"])
def test_a_path_to_nothing_is_a_mistake(run, path):
    result = here("doctor", run / path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("snakes: ")
    assert result.stderr.count("\n") == 1

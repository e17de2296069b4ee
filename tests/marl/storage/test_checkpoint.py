"""Checkpoints on a real disk: killed at every step, damaged in every file, made by an enemy."""

import errno
import hashlib
import itertools
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.forking import Forked
from helpers.training import LIMIT

from arena.rules import RULES_VERSION
from marl.errors import UserError
from marl.storage.checkpoint import Checkpoint, CheckpointError, manifest_sha256, read_part
from marl.storage.checkpoint_finder import find_episode, list_all, list_complete, load, load_newest, resolve
from marl.storage.checkpoint_writer import _HashingFile, mark_best, prune, save

ABOUT = {"world_size": 2, "encoder": "features", "encoder_version": 1}


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch, request):
    # What was written is seen by all processes whether synced or not, and hundreds of checkpoints are saved here.
    if request.function is not test_everything_comes_back:
        monkeypatch.setattr(os, "fsync", os.fstat)


def put(run: Path, episode: int, value: float | None = None, **about: object) -> Path:
    """A small checkpoint whose every file holds the value (the episode if not given). about: more for its manifest."""
    value = episode if value is None else value
    parts = {"state": {"value": value, "optimiser": {0: torch.full((3,), value)}}, "rank0": {"value": value}}
    return save(run, episode, {"actor.weight": torch.full((2, 3), float(value))}, parts, ABOUT | about)


def value_of(found: Checkpoint) -> float:
    """The value it was made with; all files must agree."""
    values = {found.weights["actor.weight"][1, 2].item(), found.part("state")["value"], found.part("rank0")["value"]}
    assert len(values) == 1, values
    return values.pop()


def one_line(error: pytest.ExceptionInfo, *parts: str) -> None:
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value)


def hidden(run: Path) -> list[str]:
    return [name for name in os.listdir(run / "checkpoints") if name.startswith(".")]


def reseal(folder: Path, change) -> None:
    """Change a manifest as someone would who knows how it is made."""
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest.pop("sha256")
    change(manifest)
    file.write_text(json.dumps(manifest | {"sha256": manifest_sha256(manifest)}))


# Saving and loading


def test_everything_comes_back(tmp_path):
    state = {
        "rng": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": np.random.default_rng(1).bit_generator.state,
        "none": None,
        "nested": [(1, 2.5, "a", b"b", True, 2**80)],
    }
    network = torch.nn.Linear(2, 2)
    optimiser = torch.optim.Adam(network.parameters())
    network(torch.ones(2)).sum().backward()
    optimiser.step()
    state["optimiser"] = optimiser.state_dict()
    folder = save(tmp_path, 100, dict(network.state_dict()), {"state": state}, ABOUT)
    assert folder == tmp_path / "checkpoints" / "episode_100"
    assert sorted(os.listdir(folder)) == ["manifest.json", "state.pt", "weights.safetensors"]
    assert (tmp_path / "checkpoints" / "last").read_text() == "episode_100\n"
    found = load(tmp_path)
    assert (found.path, found.episode, found.parts) == (folder, 100, ["state"])
    assert all(torch.equal(found.weights[name], tensor) for name, tensor in network.state_dict().items())
    back = found.part("state")
    assert torch.equal(back["rng"], state["rng"])
    assert torch.equal(back["optimiser"]["state"][0]["exp_avg"], optimiser.state_dict()["state"][0]["exp_avg"])
    assert (back["python"], back["numpy"], back["nested"]) == (state["python"], state["numpy"], state["nested"])


def test_the_manifest_says_what_it_is(tmp_path):
    folder = put(tmp_path, 7)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert manifest["rules"] == RULES_VERSION
    assert manifest["episode"] == 7
    assert {name: manifest[name] for name in ABOUT} == ABOUT
    assert set(manifest["files"]) == {"weights.safetensors", "state.pt", "rank0.pt"}
    for name, stamp in manifest["files"].items():
        content = (folder / name).read_bytes()
        assert stamp == {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_weights_may_share_memory_and_have_gaps(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    weights = {"a": base, "b": base, "view": base[:, 1], "turned": base.T, "p": torch.nn.Parameter(base)}
    save(tmp_path, 1, weights, {"state": {}}, {})
    found = load(tmp_path).weights
    assert all(torch.equal(found[name], tensor) for name, tensor in weights.items())


@pytest.mark.needs_cuda
def test_weights_of_a_gpu_come_back_on_the_cpu(tmp_path):
    save(tmp_path, 1, {"a": torch.ones(3, device="cuda")}, {"state": {"b": torch.ones(3, device="cuda")}}, {})
    found = load(tmp_path)
    assert found.weights["a"].device.type == found.part("state")["b"].device.type == "cpu"


def test_a_wrapped_network_is_not_saved(tmp_path):
    with pytest.raises(AssertionError, match=r"module\.actor"):
        save(tmp_path, 1, {"module.actor": torch.ones(1)}, {"state": {}}, {})
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("bad", [np.zeros(3), np.float64(1), {"deep": [Path("x")]}, {np.int64(1): 2}, slice(1)])
def test_what_would_not_load_is_not_saved(tmp_path, bad):
    with pytest.raises(TypeError, match=r"state\['x'\]"):
        save(tmp_path, 1, {}, {"state": {"x": bad}}, {})
    assert not (tmp_path / "checkpoints").exists()


def test_a_part_that_is_not_there(tmp_path):
    put(tmp_path, 1)
    with pytest.raises(CheckpointError) as error:
        load(tmp_path).part("rank1")
    one_line(error, "'rank1'", "rank0, state")


def test_the_same_episode_again(tmp_path):
    put(tmp_path, 5, 1.0)
    put(tmp_path, 5, 2.0)
    assert value_of(load(tmp_path)) == 2
    assert len(list_complete(tmp_path)) == 1
    assert hidden(tmp_path) == []


# Killed, or out of room, at every step of saving

STEPS = [(os, "fsync"), (os, "replace"), (os, "mkdir"), (shutil, "rmtree"), (_HashingFile, "write")]


def watch(put_in, steps, happen) -> None:
    """Call happen() before every step that touches the disk; of a write the first half is done before."""

    def watched(name, call):
        def step(first, *rest, **options):
            if name != "write":
                happen()
                return call(first, *rest, **options)
            half = len(rest[0]) // 2
            call(first, rest[0][:half])
            first.flush()
            try:
                happen()
            except OSError as error:
                first.error = error
                raise
            return half + call(first, rest[0][half:])

        return step

    for owner, name in steps:
        put_in(owner, name, watched(name, getattr(owner, name)))


def two_checkpoints(run: Path) -> Path:
    """A run with the checkpoints 1 (10) and 2 (20), of which the second is the best."""
    run.mkdir(parents=True)
    put(run, 1, 10)
    mark_best(run, put(run, 2, 20))
    return run


@pytest.fixture(scope="module", params=[3, 2], ids=["a new one", "the same episode"])
def interrupted(request, tmp_path_factory) -> tuple[int, Path]:
    """An episode, and a folder with what every step of saving it (30) finds in the run, which is what a kill at this
    step would leave: what the process keeps in memory is in no file. The last of them is the run after the save.

    Kills of real processes that save: tests/marl/training/test_resume.py and tests/marl/ranks/test_faults.py.
    """
    base, episode, steps = tmp_path_factory.mktemp("interrupted"), request.param, itertools.count(1)
    run, copying = two_checkpoints(base / "run"), False

    def leave() -> None:
        nonlocal copying
        if not copying:  # copying takes some of these steps itself
            copying = True
            shutil.copytree(run, base / "left" / f"{next(steps):03}", symlinks=True)
            copying = False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        patch.setattr(os, "getpid", lambda: 2**22 + 1)  # names of files: the next save is that of another process
        watch(patch.setattr, STEPS, leave)
        put(run, episode, 30)
        leave()
    return episode, base / "left"


def test_killed_at_every_step_of_saving(interrupted, capsys):
    episode, left = interrupted
    *runs, whole = sorted(left.iterdir())
    assert len(runs) > 20
    assert value_of(load_newest(whole)) == 30
    seen = set()
    for run in runs:
        states = {value_of(load_newest(run)), value_of(load(run))}
        assert states <= {20, 30}, run
        seen |= states
        assert value_of(load(find_episode(run, 1))) == 10
        assert load(run / "checkpoints" / "best").episode == 2
        assert [load(folder).episode for folder in list_complete(run)] in ([2, 1], [3, 2, 1])
        put(run, 4)  # the next save finds its way and clears up
        assert hidden(run) == []
        assert value_of(load(run)) == 4
        assert value_of(load(find_episode(run, 2))) in ({20, 30} if episode == 2 else {20})
    assert seen == {20, 30}
    assert capsys.readouterr().err == ""


def kill_everywhere(base: str) -> int:
    """Prune runs, each killed at another step, up to one that is not. In a process of its own, which forks."""
    os.fsync = os.fstat
    for count in itertools.count(1):
        if not killed_at(count, two_checkpoints(Path(base) / f"{count:03}")):
            return 0


def killed_at(count: int, run: Path) -> bool:
    """Prune, and be killed at this step; False if there are fewer steps."""
    child = os.fork()
    if child == 0:
        steps = itertools.count(1)
        watch(setattr, STEPS, lambda: next(steps) == count and os.kill(os.getpid(), signal.SIGKILL))
        prune(run, 1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    return status != 0


def test_killed_at_every_step_of_pruning(tmp_path):
    process = Forked(kill_everywhere, str(tmp_path / "runs"), environment=dict(os.environ))
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    *runs, whole = sorted((tmp_path / "runs").iterdir())
    assert [folder.name for folder in list_complete(whole)] == ["episode_2"]
    assert len(runs) >= 2
    for run in runs:
        assert value_of(load_newest(run)) == 20
        assert all(value_of(load(folder)) for folder in list_complete(run))
        put(run, 3)
        assert hidden(run) == []


@pytest.mark.parametrize("episode", [2, 1], ids=["a new one", "the same episode"])
def test_out_of_room_at_every_step_of_saving(tmp_path, monkeypatch, episode):
    for count in itertools.count(1):
        run = tmp_path / str(count)
        run.mkdir()
        put(run, 1, 10)
        left = count

        def happen():
            nonlocal left
            left -= 1
            if left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")

        message = None
        with monkeypatch.context() as patch:
            watch(patch.setattr, [step for step in STEPS if step[1] != "rmtree"], happen)  # removing needs no room
            try:
                put(run, episode, 30)
            except CheckpointError as error:
                message = str(error)
        assert value_of(load(run)) in (10, 30)
        assert value_of(load_newest(run)) in (10, 30)
        if message is None:
            assert value_of(load(run)) == 30
        else:
            assert "\n" not in message
            assert f"episode_{episode}: No space left on device" in message
            assert "is still good" in message
        assert not any(name.startswith(".saving") for name in hidden(run))
        put(run, 3)
        assert hidden(run) == []
        if left > 0:  # it was done before its room was up
            break
    assert count > 20


def test_a_file_that_may_not_grow(tmp_path):
    put(tmp_path, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))  # Python ignores SIGXFSZ: write fails for real
    try:
        for weights, part in (({"a": torch.ones(1 << 16)}, {}), ({}, {"buffer": torch.ones(1 << 16)})):
            with pytest.raises(CheckpointError) as error:
                save(tmp_path, 2, weights, {"state": part}, ABOUT)
            one_line(error, str(tmp_path / "checkpoints" / "episode_2"), "File too large", "episode_1 is still good")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert hidden(tmp_path) == []
    assert value_of(load_newest(tmp_path)) == 1


def test_a_disk_that_is_full_for_real(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "snakes", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        put(disk, 1)
        with pytest.raises(CheckpointError) as error:
            save(disk, 2, {"a": torch.ones(10)}, {"state": {"buffer": torch.ones(1 << 17)}}, ABOUT)
        one_line(error, "No space left on device", "episode_1 is still good")
        assert value_of(load_newest(disk)) == 1
        put(disk, 3)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_run_that_is_not_there_or_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    for run in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(CheckpointError) as error:
            put(run, 1)
        one_line(error, str(run), "there is no earlier checkpoint")


def test_what_is_not_the_disks_fault_is_not_hidden(tmp_path):
    put(tmp_path, 1)
    with pytest.raises(TypeError):
        save(tmp_path, 2, {}, {"state": {}}, {"encoder": object()})
    assert hidden(tmp_path) == []
    assert value_of(load(tmp_path)) == 1


# Damage and malice


@pytest.mark.parametrize("name", ["weights.safetensors", "state.pt", "rank0.pt"])
def test_a_flipped_bit_anywhere(tmp_path, name):
    folder = put(tmp_path, 1)
    content = (folder / name).read_bytes()
    for i in range(0, len(content), max(1, len(content) // 50)):
        (folder / name).write_bytes(content[:i] + bytes([content[i] ^ 1 << i % 8]) + content[i + 1 :])
        with pytest.raises(CheckpointError) as error:
            load(folder)
        one_line(error, str(folder / name), "damaged", "another checkpoint")
    (folder / name).write_bytes(content)
    load(folder)


def test_a_flipped_bit_in_the_manifest(tmp_path):
    folder = put(tmp_path, 1)
    good = load(folder)
    file = folder / "manifest.json"
    content = file.read_bytes()
    refused = 0
    for i in range(len(content)):
        file.write_bytes(content[:i] + bytes([content[i] ^ 1 << i % 7]) + content[i + 1 :])
        try:
            found = load(folder)
        except CheckpointError:
            refused += 1
        else:
            assert found.manifest == good.manifest  # a space that became another
    assert refused > 0.7 * len(content)


@pytest.mark.parametrize("name", ["weights.safetensors", "state.pt", "rank0.pt", "manifest.json"])
@pytest.mark.parametrize("keep", [None, 0, 10, -1])
def test_a_missing_or_truncated_file(tmp_path, name, keep):
    put(tmp_path, 1)
    folder = put(tmp_path, 2)
    if keep is None:
        (folder / name).unlink()
    else:
        size = (folder / name).stat().st_size
        os.truncate(folder / name, keep if keep >= 0 else size - 5)
    for verify in (True, False):
        with pytest.raises(CheckpointError) as error:
            load(folder, verify)
        one_line(error, str(folder), name, "another checkpoint")
    assert [each.name for each in list_complete(tmp_path)] == ["episode_1"]


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"files": 3}', "[" * 100_000, "\xff"])
def test_a_manifest_that_is_none(tmp_path, text):
    folder = put(tmp_path, 1)
    (folder / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(CheckpointError) as error:
        load(folder)
    one_line(error, str(folder / "manifest.json"), "damaged")
    assert list_complete(tmp_path) == []


@pytest.mark.parametrize(("field", "value"), [("format", 2), ("format", "1"), ("rules", RULES_VERSION + 1)])
def test_another_format_or_other_rules(tmp_path, field, value):
    folder = put(tmp_path, 1)
    reseal(folder, lambda manifest: manifest.update({field: value}))
    with pytest.raises(CheckpointError) as error:
        load(folder)
    one_line(error, str(folder), f"{field} {value!r}", "run.json names the commit")


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("form", ["zip", "old", "plain"])
def test_a_pickle_in_a_part_is_not_run(tmp_path, form):
    folder, trace = put(tmp_path, 1), tmp_path / "trace"
    file = folder / "state.pt"
    if form == "plain":
        file.write_bytes(pickle.dumps(Bomb(trace), protocol=2))
    else:
        torch.save({"value": Bomb(trace)}, file, _use_new_zipfile_serialization=form == "zip")
        assert zipfile.is_zipfile(file) == (form == "zip")
    content = file.read_bytes()
    stamp = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    reseal(folder, lambda manifest: manifest["files"].update({"state.pt": stamp}))
    found = load(folder)
    with pytest.raises(CheckpointError) as error:
        found.part("state")
    one_line(error, str(file), "not read")
    assert not trace.exists()


@pytest.mark.parametrize(
    "name",
    ["../secret.pt", "/etc/secret.pt", "..", "a/b.pt", "a\\b.pt", "", ".hidden.pt", "state.pkl", "a\n.pt", "a\0.pt"],
)
def test_a_name_that_leads_elsewhere(tmp_path, name):
    folder = put(tmp_path, 1)
    torch.save({"secret": 1}, tmp_path / "checkpoints" / "secret.pt")
    content = (tmp_path / "checkpoints" / "secret.pt").read_bytes()
    stamp = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    reseal(folder, lambda manifest: manifest["files"].update({name: stamp}))
    with pytest.raises(CheckpointError) as error:
        load(folder)
    one_line(error, repr(name), "do not use it")


def test_a_link_that_leads_out(tmp_path):
    folder = put(tmp_path, 1)
    (folder / "state.pt").rename(tmp_path / "state.pt")
    (folder / "state.pt").symlink_to(tmp_path / "state.pt")
    with pytest.raises(CheckpointError) as error:
        load(folder)
    one_line(error, str(folder / "state.pt"), "leads out")


def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path):
    folder = put(tmp_path, 1)
    (folder / "state.pt").unlink()
    os.mkfifo(folder / "state.pt")
    with pytest.raises(CheckpointError, match="missing"):
        load(folder)


def test_a_run_may_lie_behind_a_link(tmp_path):
    (tmp_path / "run").mkdir()
    put(tmp_path / "run", 1)
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert value_of(load(tmp_path / "link")) == 1


# Finding


def test_the_one_before_a_damaged_one(tmp_path, capsys):
    for episode in (1, 2, 3):
        put(tmp_path, episode)
    os.truncate(tmp_path / "checkpoints" / "episode_3" / "state.pt", 5)
    file = tmp_path / "checkpoints" / "episode_2" / "weights.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert value_of(load_newest(tmp_path)) == 1
    told = capsys.readouterr().err
    assert told.startswith("snakes: ")
    assert told.count("\n") == 1
    assert "episode_3/state.pt" in told
    assert "episode_1" in told
    shutil.rmtree(tmp_path / "checkpoints" / "episode_1")
    with pytest.raises(CheckpointError) as error:
        load_newest(tmp_path)
    one_line(error, "episode_3/state.pt")
    assert capsys.readouterr().err == ""


def test_a_newest_one_whose_manifest_cannot_be_read_is_told(tmp_path, capsys):
    for episode in (1, 2, 3):
        put(tmp_path, episode)
    (tmp_path / "checkpoints" / "episode_2" / "manifest.json").write_text("{")  # of 2: nobody knows that 3 is newer
    assert [folder.name for folder in list_all(tmp_path)] == ["episode_2", "episode_3", "episode_1"]
    assert value_of(load_newest(tmp_path)) == 3
    told = capsys.readouterr().err
    assert "episode_2/manifest.json is damaged" in told
    assert "resuming from episode_3" in told


def test_newest_is_what_was_saved_last_not_the_highest_episode(tmp_path):
    for episode in (50, 100, 60):  # at 100 the user went back to 50
        put(tmp_path, episode)
    assert [folder.name for folder in list_complete(tmp_path)] == ["episode_60", "episode_100", "episode_50"]
    assert load_newest(tmp_path).episode == load(tmp_path).episode == 60


def test_what_a_path_may_be(tmp_path):
    one, two = put(tmp_path, 1), put(tmp_path, 2)
    mark_best(tmp_path, one)
    assert (tmp_path / "checkpoints" / "best").read_text() == "episode_1\n"
    for path in (tmp_path, str(tmp_path), tmp_path / "checkpoints", tmp_path / "checkpoints" / "last", two):
        assert resolve(path) == two
    assert resolve(tmp_path, prefer="best") == resolve(tmp_path / "checkpoints" / "best") == one
    assert find_episode(tmp_path, 1) == one
    assert load(tmp_path / "checkpoints" / "best").episode == 1


def test_without_pointers_the_newest_complete_one_is_taken(tmp_path):
    put(tmp_path, 1)
    put(tmp_path, 2)
    assert resolve(tmp_path, prefer="best").name == "episode_2"
    for pointer in ("episode_9", "../../elsewhere", "", "episode_1/../.."):
        (tmp_path / "checkpoints" / "last").write_text(pointer)
        assert resolve(tmp_path).name == "episode_2"


def test_a_checkpoint_alone_is_enough(tmp_path):
    (tmp_path / "run").mkdir()
    put(tmp_path / "run", 1)
    copy = shutil.copytree(tmp_path / "run" / "checkpoints" / "episode_1", tmp_path / "taken home")
    assert value_of(load(copy)) == 1


def test_what_is_missing_is_named_with_what_is_there(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(UserError) as error:
        resolve(run)
    one_line(error, str(run), "manifest.json", "there: nothing")
    put(run, 100)
    put(run, 200)
    checkpoints = run / "checkpoints"
    for call, parts in (
        (lambda: find_episode(run, 150), ["episode 150", str(checkpoints), "episode_100, episode_200"]),
        (lambda: resolve(checkpoints / "episode_7"), ["episode 7", "episode_100, episode_200"]),
        (lambda: resolve(checkpoints / "best"), ["'best'", str(checkpoints), "episode_100, episode_200"]),
        (lambda: resolve(tmp_path / "rum"), [str(tmp_path / "rum"), "there: run"]),
        (lambda: resolve(tmp_path / "no" / "run"), [str(tmp_path / "no" / "run"), "no such folder"]),
        (
            lambda: resolve(checkpoints / "episode_100" / "state.pt"),
            ["episode_100/state.pt is no run", "manifest.json"],
        ),
        (lambda: mark_best(run, checkpoints / "episode_7"), ["episode_7", "episode_100, episode_200"]),
        (lambda: load_newest(tmp_path / "none"), [str(tmp_path / "none"), "there: nothing"]),
    ):
        with pytest.raises(UserError) as error:
            call()
        one_line(error, *parts)


def test_a_path_that_is_no_run_is_told_without_the_files_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("notes.txt", "README.md"):
        (tmp_path / name).write_text("hello")
    for name, parts in (
        ("nope", ["no run, checkpoint or snapshot at nope; give its path, or the name of a run", "runs lists them"]),
        ("README.md", ["README.md is no run", "no checkpoint (a folder with manifest.json)", "snapshot"]),
    ):
        with pytest.raises(UserError) as error:
            resolve(name)
        one_line(error, *parts)
        assert "notes.txt" not in str(error.value)
    (tmp_path / "run").mkdir()
    put(tmp_path / "run", 1)
    with pytest.raises(UserError) as error:
        resolve("rum")
    one_line(error, "at rum; in . there: run; give its path")


# Pruning


def test_pruning_keeps_the_newest_the_best_and_the_milestones(tmp_path):
    for episode in range(10, 100, 10):
        put(tmp_path, episode, milestone=episode == 50)
    mark_best(tmp_path, tmp_path / "checkpoints" / "episode_20")
    removed = prune(tmp_path, keep_last=2)
    assert sorted(folder.name for folder in removed) == [f"episode_{i}" for i in (10, 30, 40, 60, 70)]
    assert sorted(folder.name for folder in list_complete(tmp_path)) == [f"episode_{i}" for i in (20, 50, 80, 90)]
    assert prune(tmp_path, keep_last=2) == []
    assert load(tmp_path).episode == 90
    assert load(tmp_path / "checkpoints" / "best").episode == 20
    assert hidden(tmp_path) == []


def test_pruning_keeps_what_does_not_say_whether_it_is_a_milestone(tmp_path):
    for episode in (1, 2, 3):
        put(tmp_path, episode)
    reseal(tmp_path / "checkpoints" / "episode_1", lambda manifest: manifest.pop("milestone"))
    assert [folder.name for folder in prune(tmp_path, keep_last=1)] == ["episode_2"]


def test_pruning_leaves_links_alone(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for episode in (1, 2, 3):
        put(run, episode)
    elsewhere = (run / "checkpoints" / "episode_1").rename(tmp_path / "episode_1")
    (run / "checkpoints" / "episode_1").symlink_to(elsewhere)
    assert [folder.name for folder in prune(run, keep_last=1)] == ["episode_2"]
    assert (run / "checkpoints" / "episode_1").is_symlink()
    assert value_of(load(find_episode(run, 1))) == 1


def test_pruning_with_nought_keeps_all(tmp_path):
    for episode in (1, 2, 3):
        put(tmp_path, episode)
    assert prune(tmp_path, keep_last=0) == []
    assert len(list_complete(tmp_path)) == 3


def test_pruning_never_removes_what_last_points_to(tmp_path):
    for episode in (1, 2, 3):
        put(tmp_path, episode)
    (tmp_path / "checkpoints" / "last").write_text("episode_1\n")
    assert [folder.name for folder in prune(tmp_path, keep_last=1)] == ["episode_2"]


def test_damaged_ones_do_not_count_as_kept(tmp_path):
    for episode in (1, 2, 3):
        put(tmp_path, episode)
    (tmp_path / "checkpoints" / "episode_3" / "state.pt").unlink()
    assert [folder.name for folder in prune(tmp_path, keep_last=1)] == ["episode_1"]
    assert load_newest(tmp_path).episode == 2


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_whatever_is_damaged_in_a_part_is_told_in_one_line(tmp_path):
    """Every byte of the pickle is changed, in a file that is whole otherwise: torch's parser raises all kinds."""
    folder = put(tmp_path, 1)
    with zipfile.ZipFile(folder / "state.pt") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (pickled,) = (name for name in members if name.endswith("data.pkl"))
    refused: list[str] = []
    for at in range(len(members[pickled])):
        for change in (1, 32, 255):
            data = bytearray(members[pickled])
            data[at] ^= change
            with zipfile.ZipFile(folder / "state.pt", "w", zipfile.ZIP_STORED) as archive:
                for name, content in members.items():
                    archive.writestr(name, bytes(data) if name == pickled else content)
            try:
                assert isinstance(read_part(folder, "state"), dict)
            except CheckpointError as error:
                refused.append(str(error))
    assert len(refused) > len(members[pickled])
    assert not [line for line in refused if "\n" in line]


@pytest.mark.parametrize("value", [[], 5, "x", torch.zeros(2), None])
def test_a_part_that_is_no_dictionary_is_refused(tmp_path, value):
    folder = put(tmp_path, 1)
    torch.save(value, folder / "state.pt")
    with pytest.raises(CheckpointError, match="is not read"):
        read_part(folder, "state")

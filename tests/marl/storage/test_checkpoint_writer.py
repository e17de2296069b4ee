"""What a checkpoint asks of the disk, in order, and how rank 0 waits for the parts of the others."""

import json
import os
import re
from pathlib import Path

import pytest
import torch

from marl.storage import checkpoint_writer
from marl.storage.checkpoint import CheckpointError, read
from marl.storage.checkpoint_finder import load
from marl.storage.checkpoint_writer import (
    _HashingFile,
    drop_rank_parts,
    prepare,
    save,
    save_with_others,
    write_part,
)

SYNCED = ["write", "fsync"]


class Disk:
    """Records writes, syncs and renames of files and folders below a folder, in order, by name."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self.calls = folder, []
        replace, write = os.replace, _HashingFile.write

        def recorded_replace(source, target):
            replace(source, target)
            self.calls.append(("rename", self._plain(source), self._plain(target)))

        def recorded_write(file, data):
            name = self._name(file._file.fileno())
            if self.calls[-1:] != [("write", name)]:
                self.calls.append(("write", name))
            return write(file, data)

        monkeypatch.setattr(os, "fsync", lambda handle: self.calls.append(("fsync", self._name(handle))))
        monkeypatch.setattr(os, "replace", recorded_replace)
        monkeypatch.setattr(_HashingFile, "write", recorded_write)

    def _name(self, handle: int) -> str:
        about = os.fstat(handle)
        paths = (self._folder, *self._folder.rglob("*"))
        return self._plain(next(path for path in paths if os.path.samestat(os.stat(path), about)))

    def _plain(self, path: str | os.PathLike) -> str:
        """A path from the folder on; the number of this process in hidden names is cut out."""
        return re.sub(r"\.\d+\.part$", ".part", os.path.relpath(path, self._folder))


def synced(*names: str) -> list[tuple[str, str]]:
    return [(step, name) for name in names for step in SYNCED]


def test_every_file_is_on_the_disk_before_the_folder_gets_its_name(tmp_path, monkeypatch):
    disk = Disk(tmp_path, monkeypatch)
    draft, final = "checkpoints/.saving-episode_7", "checkpoints/episode_7"
    named = [("fsync", "checkpoints/.last.part"), ("rename", "checkpoints/.last.part", "checkpoints/last")]
    in_order = [
        *synced(f"{draft}/weights.safetensors", f"{draft}/state.pt", f"{draft}/rank0.pt", f"{draft}/manifest.json"),
        ("fsync", draft),
    ]
    in_place = [("rename", draft, final), ("fsync", "checkpoints")]
    last = [*named, ("fsync", "checkpoints")]
    save(tmp_path, 7, {"a": torch.ones(2)}, {"state": {}, "rank0": {}}, {})
    assert disk.calls == [*in_order, *in_place, *last]

    disk.calls.clear()  # the same episode once more: the old folder makes room, and is removed when the new one is safe
    save(tmp_path, 7, {"a": torch.ones(2)}, {"state": {}, "rank0": {}}, {})
    aside = next(call[2] for call in disk.calls if call[:2] == ("rename", final))
    removed = ("rename", aside, aside.replace(os.path.basename(aside), f".trash-{os.path.basename(aside)}"))
    assert disk.calls == [*in_order, ("rename", final, aside), *in_place, removed, *last]


def test_a_part_of_another_rank_is_on_the_disk_before_its_stamp_is_written(tmp_path, monkeypatch):
    prepare(tmp_path)
    disk = Disk(tmp_path, monkeypatch)
    draft = "checkpoints/.saving-episode_7-abc"
    write_part(tmp_path, 7, "abc", "rank1", {"value": 1})
    assert disk.calls == synced(f"{draft}/rank1.pt", f"{draft}/rank1.stamp")
    disk.calls.clear()
    write_part(tmp_path, 7, "abc", "rank2", None)
    assert disk.calls == synced(f"{draft}/rank2.stamp")
    save_with_others(tmp_path, 7, "abc", {}, {"state": {}}, {}, ["rank1", "rank2"], lambda: 0.0)
    found = load(tmp_path)
    assert found.parts == ["rank1", "state"]
    assert found.part("rank1") == {"value": 1}
    assert not [name for name in os.listdir(found.path) if name.endswith(".stamp")]


def test_a_stamp_counts_when_its_last_byte_is_there(tmp_path):
    whole = json.dumps({"rank1.pt": {"size": 3, "sha256": "ab"}}).encode() + b"\n"
    for length in range(len(whole)):
        (tmp_path / "rank1.stamp").write_bytes(whole[:length])
        assert checkpoint_writer._read_stamp(tmp_path / "rank1.stamp") is None, length
    (tmp_path / "rank1.stamp").write_bytes(whole)
    assert checkpoint_writer._read_stamp(tmp_path / "rank1.stamp") == json.loads(whole)


class Clock:
    """Stands in for the module `time`: a pause takes six seconds, and something happens in it."""

    def __init__(self, happens) -> None:
        self._now, self._happens, self.pauses = 100.0, happens, 0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += 6
        self.pauses += 1
        self._happens(self.pauses)


def test_patience_begins_again_with_every_byte_that_comes(tmp_path, monkeypatch):
    def happens(pause: int) -> None:
        if pause == 20:
            (tmp_path / "rank1.stamp").write_text("{}\n")
        elif pause % 2:
            with open(tmp_path / "rank1.pt", "ab") as file:
                file.write(b"x")

    clock = Clock(happens)
    monkeypatch.setattr(checkpoint_writer, "time", clock)
    assert checkpoint_writer._wait_for_parts(tmp_path, ["rank1"], lambda: 10.0) == {}
    assert clock.pauses == 20


@pytest.mark.parametrize(("patience", "pauses"), [(5.0, 4), (10.0, 5), (17.0, 6)])
def test_patience_ends_so_long_after_the_last_byte(tmp_path, monkeypatch, patience, pauses):
    def happens(pause: int) -> None:
        if pause <= 3:
            (tmp_path / "rank2.pt").write_bytes(b"x" * pause)

    clock = Clock(happens)
    monkeypatch.setattr(checkpoint_writer, "time", clock)
    (tmp_path / "rank1.stamp").write_text("{}\n")
    with pytest.raises(OSError, match="the part rank2 has not come"):
        checkpoint_writer._wait_for_parts(tmp_path, ["rank1", "rank2"], lambda: patience)
    assert clock.pauses == pauses


# --- parts of ranks in older checkpoints


@pytest.fixture
def three(tmp_path, monkeypatch) -> Path:
    """A run with three checkpoints of two ranks each."""
    monkeypatch.setattr(checkpoint_writer, "KEPT_IN_OLDER", 10_000)
    for episode in (1, 2, 3):
        parts = {"state": {}, "rank0": {"buffer": torch.ones(4000)}, "rank1": {"buffer": torch.ones(10)}}
        save(tmp_path, episode, {"a": torch.ones(2)}, parts, {"world_size": 2})
    return tmp_path


def parts_of(run: Path) -> dict[str, list[str]]:
    return {folder.name: read(folder).parts for folder in (run / "checkpoints").glob("episode_*")}


def test_only_the_newest_keeps_the_parts_of_its_ranks(three) -> None:
    checkpoints = three / "checkpoints"
    assert drop_rank_parts(three, checkpoints / "episode_3") == [checkpoints / f"episode_{n}" for n in (2, 1)]
    assert parts_of(three) == {
        "episode_1": ["state"], "episode_2": ["state"], "episode_3": ["rank0", "rank1", "state"],
    }  # fmt: skip
    assert not list(checkpoints.glob("episode_[12]/rank*"))
    assert drop_rank_parts(three, checkpoints / "episode_3") == [], "there is nothing left"


def test_small_parts_and_folders_behind_links_stay(three, tmp_path, monkeypatch) -> None:
    checkpoints = three / "checkpoints"
    (checkpoints / "episode_1").rename(tmp_path / "elsewhere")
    (checkpoints / "episode_1").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(checkpoint_writer, "KEPT_IN_OLDER", 10**6)
    assert drop_rank_parts(three, checkpoints / "episode_3") == []
    monkeypatch.setattr(checkpoint_writer, "KEPT_IN_OLDER", 0)
    assert drop_rank_parts(three, checkpoints / "episode_3") == [checkpoints / "episode_2"]
    assert (tmp_path / "elsewhere" / "rank0.pt").exists()


def test_a_kill_between_manifest_and_files_leaves_good_checkpoints(three, monkeypatch) -> None:
    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            drop_rank_parts(three, three / "checkpoints" / "episode_3")
    assert parts_of(three)["episode_2"] == ["state"]


def test_what_cannot_be_removed_is_one_line(three, monkeypatch) -> None:
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_writer, "write_atomically", full)
    with pytest.raises(CheckpointError, match=r"cannot remove the buffer of .*episode_2: No space left on device"):
        drop_rank_parts(three, three / "checkpoints" / "episode_3")
    assert parts_of(three)["episode_2"] == ["rank0", "rank1", "state"]

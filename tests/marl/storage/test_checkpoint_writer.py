"""What a checkpoint asks of the disk, in order, and how rank 0 waits for the parts of the others."""

import json
import os
import re
from pathlib import Path

import pytest
import torch

from marl.storage import checkpoint_writer
from marl.storage.checkpoint_finder import load
from marl.storage.checkpoint_writer import _HashingFile, prepare, save, save_with_others, write_part

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

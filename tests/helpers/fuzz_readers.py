"""Damaged files for every function that reads a file of a stranger: it accepts or refuses, in one line and in time.

A case is a number: its random numbers follow from the seed, the reader's name and the number.
"""

import io
import json
import random
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import safetensors.torch
import torch

from arena import jidi_log, replay
from arena.errors import ArenaError
from helpers.command import ROOT
from helpers.competition_log import write_log
from helpers.fuzzing import changed, damaged, limited_time
from marl.analysis.runs import read_summary
from marl.commands.train_league_record import FILE as LEAGUE
from marl.commands.train_league_record import read_record
from marl.config.yaml_file import read_yaml
from marl.errors import UserError
from marl.metrics.run_metrics import last_line, read_lines
from marl.storage import checkpoint, checkpoint_finder, checkpoint_writer, run_folder, run_owner, snapshot

SNAPSHOT = ROOT / "opponents" / "champions" / "champion_small.safetensors"
ACCEPTED, REFUSED, TRACEBACK, HANG = "accepted", "refused", "traceback", "hang"


class Reader(NamedTuple):
    """A file, how it is read, and how else than by its bytes it is damaged."""

    file: Path
    read: Callable[[], object]
    change: Callable[[random.Random, bytes], bytes]


class Readers:
    """All readers, with a good file of each in a folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.problems: list[str] = []
        run = folder / "run"
        run.mkdir()
        weights = {"actor.w": torch.arange(6.0), "critic.w": torch.zeros(2, 3)}
        state = {"progress": {"episode": 8}, "tensor": torch.ones(5), "names": ["a", {"b": (1, 2.0, None, True)}]}
        saved = checkpoint_writer.save(run, 8, weights, {"state": state}, {"world_size": 1, "encoder": "features"})
        match = self._a_match()
        replay.write(folder / "match.jsonl", match)
        write_log(folder / "log.json", match)
        (folder / "team.safetensors").write_bytes(SNAPSHOT.read_bytes())
        config = (ROOT / "configs" / "base.yaml").read_bytes()
        (folder / "config.yaml").write_bytes(config)
        (run / "config.yaml").write_bytes(config)
        about = {"command": "x", "started_unix": 1.0, "process": "a b 1 2", "versions": {"torch": "2"}}
        (run / "run.json").write_text(json.dumps(about))
        (run / "metrics.jsonl").write_text('{"step": 1, "time": 1.0, "eval/points": 0.5, "a": [1, {}]}\n' * 4)
        (run / "owner.1.json").write_text(
            json.dumps({"process": "a", "pid_namespace": "b", "since": "c", "launchers": ["d"]})
        )
        pair = {"home": "a", "away": "b", "wins": 1, "draws": 0, "losses": 1}
        steps = [{"name": "a", "opponents": {"level0": 1.0}, "first_episode": 0}]
        record = {"version": 1, "seed": 1, "matches": 2, "rounds": [{"step": 1.0}], "steps": steps, "pairs": [pair]}
        (folder / LEAGUE).write_text(json.dumps(record))
        self.readers = {
            "configuration": Reader(folder / "config.yaml", lambda: read_yaml(folder / "config.yaml"), as_it_is),
            "run's configuration": Reader(run / "config.yaml", lambda: read_summary(run).episodes, as_it_is),
            "run.json": Reader(run / "run.json", lambda: run_folder.read_run(run), as_json),
            "metrics.jsonl": Reader(run / "metrics.jsonl", lambda: (read_lines(run), last_line(run)), as_lines),
            "owner": Reader(run / "owner.1.json", lambda: run_owner._read(run / "owner.1.json"), as_json),
            "manifest": Reader(saved / checkpoint.MANIFEST, lambda: checkpoint.read_manifest(saved), as_sealed),
            "pointer": Reader(run / "checkpoints" / "last", lambda: checkpoint_finder.resolve(run), as_it_is),
            "weights": Reader(saved / checkpoint.WEIGHTS, lambda: checkpoint.read(saved, verify=False), as_it_is),
            "part": Reader(saved / "state.pt", lambda: checkpoint.read_part(saved, "state"), as_archive),
            "snapshot": Reader(
                folder / "team.safetensors", lambda: snapshot.read(folder / "team.safetensors"), as_header
            ),
            "replay": Reader(folder / "match.jsonl", lambda: jidi_log.open_match(folder / "match.jsonl"), as_lines),
            "competition log": Reader(folder / "log.json", lambda: jidi_log.open_match(folder / "log.json"), as_json),
            "league": Reader(folder / LEAGUE, lambda: read_record(folder), as_json),
        }

    def count(self, name: str, cases: int) -> Counter[str]:
        """How the reader ended in so many cases; `problems` holds those that it may not end in."""
        reader = self.readers[name]
        good = reader.file.read_bytes()
        ends: Counter[str] = Counter()
        try:
            for number in range(cases):
                rng = random.Random(f"{self.seed} {name} {number}")
                data = reader.change(rng, good) if rng.random() < 0.6 else good
                reader.file.write_bytes(damaged(rng, data) if rng.random() < 0.6 else data)
                ends[self._end(name, number, reader)] += 1
        finally:
            reader.file.write_bytes(good)
        return ends

    def _end(self, name: str, number: int, reader: Reader) -> str:
        try:
            with limited_time():
                reader.read()
            return ACCEPTED
        except (UserError, ArenaError) as error:
            if "\n" not in str(error):
                return REFUSED
            end, told = TRACEBACK, f"more than one line: {error}"
        except TimeoutError as error:
            end, told = HANG, str(error)
        except Exception as error:
            end, told = TRACEBACK, "".join(traceback.format_exception(error))[-1500:]
        self.problems.append(f"seed {self.seed}, {name}, case {number}: {end}\n{told}")
        return end

    @staticmethod
    def _a_match() -> replay.Replay:
        """Of 30 turns: a match is verified by playing it."""
        from opponents import match

        with mock.patch.object(match, "TURNS", 30):
            return match.play("level0", "level1", 1, record=True).replays["first"]


# --- damage that a parser of bytes does not notice


def as_it_is(rng: random.Random, data: bytes) -> bytes:
    return data


def as_json(rng: random.Random, data: bytes) -> bytes:
    return json.dumps(changed(rng, json.loads(data))).encode()


def as_lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    lines[at] = as_json(rng, lines[at]) + b"\n"
    return b"".join(lines)


def as_sealed(rng: random.Random, data: bytes) -> bytes:
    """A manifest with the right hash."""
    values = changed(rng, json.loads(data))
    if isinstance(values, dict):
        values.pop("sha256", None)
        values["sha256"] = checkpoint.manifest_sha256(values)
    return json.dumps(values).encode()


def as_archive(rng: random.Random, data: bytes) -> bytes:
    """torch's archive with a damaged member and right check sums."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice([name for name in members if name.endswith("data.pkl")] * 3 + list(members))
    members[name] = damaged(rng, members[name])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    return out.getvalue()


def as_header(rng: random.Random, data: bytes) -> bytes:
    """A snapshot whose header says something else."""
    with safetensors.safe_open(SNAPSHOT, "pt") as file:
        about = json.loads(file.metadata()[snapshot.HEADER])
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dictionary)
    text = "[" * 100_000 if rng.random() < 0.02 else json.dumps(changed(rng, about))
    return safetensors.torch.save(weights, {snapshot.HEADER: text})

"""Random command lines and damaged files for the command line: whatever comes, it ends with 0, or in one line with 2.

A case is a number: its random numbers follow from the seed and the number, so that each can be repeated alone. Commands
run in this process. Those that would train, play or measure for long end where they would begin to.
"""

import importlib
import json
import os
import random
import re
import shutil
import signal
import string
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import safetensors.torch
from safetensors import safe_open

from helpers.command import ROOT
from helpers.training import here

HANG = 10  # seconds of CPU time that no case may take
WAIT = 120  # seconds, for a case that waits for something; test machines are busy
CHAMPION = ROOT / "opponents" / "champions" / "champion_small.safetensors"
ODD_WORDS = [
    *("", "0", "-1", "1", "2", "1e3", "1e999", "nan", "inf", "-inf", "x", "1,2", ",", "true", "null", "[1]", "{}"),
    *("--", "-", "-h", "--help", "=", "\x1b[31m", "é", "蛇", "\0", "\udcff", "9" * 40, "..", "/", "/dev/null", "last"),
    *("run1", "champion", "level0", "level0:0.5", "level0:2", "plan:level1", "plan:", "smoke", "0x10", "1_000", "٣"),
]  # fmt: skip
ODD_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**63, 10**40, 1.5, -0.0, 1e308, float("nan"), float("inf"), "", "x", "0"),
    *([], {}, [[]], [None], {"": None}, "\x1b[31m", "é", [0] * 50, {"a": {"b": {}}}, "features", "mlp", "a" * 2000),
]  # fmt: skip
STUBBED = ("eval", "league", "play", "bench", "demo", "doctor", "export")


class Problem(AssertionError):
    """A case that did not end as it must."""


class Fuzz:
    """Cases in a folder of its own, which is the current folder meanwhile."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.kinds: dict[str, Callable[[random.Random], list[str]]] = {
            "command line": self._command_line,
            "YAML": self._yaml,
            "replay": self._replay,
            "competition log": self._log,
            "checkpoint": self._checkpoint,
            "snapshot": self._snapshot,
        }
        self._make_originals()

    def run(self, number: int) -> str:
        """Run a case; returns its kind and exit code. A Problem tells how to repeat it."""
        rng = random.Random(f"{self.seed} {number}")
        kind = list(self.kinds)[number % len(self.kinds)]
        words = self.kinds[kind](rng)
        try:
            with limited_time(), _without_long_work(self.folder):
                done = here(*words)
            _check(done.returncode, done.stdout, done.stderr)
            code = done.returncode
        except SystemExit as error:  # argparse, after a help text; or long work would begin
            code = int(error.code or 0)
        except Exception as error:
            shown = "".join(traceback.format_exception(error))[-2500:]
            raise Problem(f"seed {self.seed}, case {number} ({kind}): {words}\n{shown}") from None
        if code not in (0, 2):
            raise Problem(f"seed {self.seed}, case {number} ({kind}): {words}\nexit code {code}")
        return f"{kind}: {code}"

    # --- originals

    def _make_originals(self) -> None:
        from arena.replay import write
        from helpers.competition_log import write_log
        from marl.storage import checkpoint_writer
        from opponents import match as played

        with mock.patch.object(played, "TURNS", 30):  # a match is verified by playing it
            match = played.play("level0", "level1", 1, record=True).replays["first"]
        write(self.folder / "match.jsonl", match)
        write_log(self.folder / "log.json", match)
        self._match, self._logged = ((self.folder / name).read_bytes() for name in ("match.jsonl", "log.json"))
        self._configs = [path.read_bytes() for path in sorted((ROOT / "configs").glob("*.yaml"))]
        with safe_open(CHAMPION, "pt") as file:
            about = json.loads(file.metadata()["snakes_3v3"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dictionary)
        self._about, self._weights = about, weights
        self._run = self.folder / "runs" / "snakes_3v3" / "run1_20260101_000000"
        self._run.mkdir(parents=True)
        (self._run / "config.yaml").write_bytes(self._configs[0])
        (self._run / "run.json").write_text(json.dumps({"command": "x", "started_unix": 1.0, "process": "a b 1 2"}))
        (self._run / "metrics.jsonl").write_text('{"step": 1, "time": 1.0, "eval/points": 0.5}\n' * 3)
        named = {f"actor.{name}": tensor for name, tensor in weights.items()}
        checkpoint_writer.save(self._run, 8, named, {"state": {"closed": True}}, about | {"world_size": 1})
        shutil.copytree(self._run, self.folder / "kept")

    # --- kinds of cases

    def _command_line(self, rng: random.Random) -> list[str]:
        from helpers.known_flags import first_words, flags_of
        from marl.cli.main import COMMANDS

        name = rng.choice([*COMMANDS, "train", "train", "runs"])
        flags, first = list(flags_of(name)), first_words(name)
        words = [name] if rng.random() < 0.97 else [_garbled(rng, name)]
        for _ in range(rng.randint(0, 5)):
            if rng.random() < 0.25:
                words.append(rng.choice([*first, *ODD_WORDS]))
                continue
            flag = rng.choice(flags)
            text = flag.name if rng.random() < 0.9 else _garbled(rng, flag.name)
            text = text.replace("_", "-") if rng.random() < 0.3 else text
            value = rng.choice([*flag.choices, *ODD_WORDS] if rng.random() < 0.7 or not flag.choices else flag.choices)
            if not flag.takes_value and rng.random() < 0.9:
                words.append(text)
            else:
                words += [f"{text}={value}"] if rng.random() < 0.3 else [text, value][: rng.choice((1, 2, 2, 2))]
        return words

    def _yaml(self, rng: random.Random) -> list[str]:
        import yaml

        data = rng.choice(self._configs)
        if rng.random() < 0.5:
            values = changed(rng, yaml.safe_load(data))
            data = yaml.safe_dump(values, allow_unicode=True).encode("utf-8", "surrogatepass")
        if rng.random() < 0.6:
            data = damaged(rng, data)
        return ["train", "--config", str(self._written("config.yaml", data)), "--print-config"]

    def _replay(self, rng: random.Random) -> list[str]:
        lines = self._match.splitlines(keepends=True)
        if rng.random() < 0.6:
            i = rng.randrange(len(lines))
            lines[i] = json.dumps(changed(rng, json.loads(lines[i]))).encode() + b"\n"
        if rng.random() < 0.3:
            i, j = (rng.randrange(len(lines)) for _ in range(2))
            lines[i], lines[j] = lines[j], lines[i]
        data = b"".join(lines)
        return self._shown(rng, "match.jsonl", damaged(rng, data) if rng.random() < 0.5 else data)

    def _log(self, rng: random.Random) -> list[str]:
        data = self._logged
        if rng.random() < 0.6:
            data = json.dumps(changed(rng, json.loads(data))).encode()
        return self._shown(rng, "log.json", damaged(rng, data) if rng.random() < 0.5 else data)

    def _shown(self, rng: random.Random, name: str, data: bytes) -> list[str]:
        file = str(self._written(name, data))
        return [
            "replay",
            file,
            *rng.choice((["--ansi", "--turn", "0"], ["--html", "x.html"], ["--ansi", "--turn", "7"])),
        ]

    def _checkpoint(self, rng: random.Random) -> list[str]:
        """A file of JSON or text in a run is damaged; half of the manifests have the right hash all the same."""
        from marl.storage.checkpoint import manifest_sha256

        shutil.rmtree(self._run)
        shutil.copytree(self.folder / "kept", self._run)
        names = ("checkpoints/episode_8/manifest.json", "checkpoints/last", "run.json", "config.yaml", "metrics.jsonl")
        name = rng.choice((names[0], *names))
        file = self._run / name
        if name.endswith(".json") and rng.random() < 0.7:
            values = changed(rng, json.loads(file.read_bytes()))
            if isinstance(values, dict) and "files" in values and rng.random() < 0.8:
                values.pop("sha256", None)
                values["sha256"] = manifest_sha256(values)
            file.write_text(json.dumps(values))
        else:
            file.write_bytes(damaged(rng, file.read_bytes()))
        run = str(self._run)
        return rng.choice(
            (
                ["export", run, "--safetensors", "x.safetensors"],
                ["export", "last", "--safetensors", "x.safetensors"],
                ["runs", "--runs-dir", "runs"],
                ["runs", "compare", run, "run1"],
                ["runs", "prune", "--keep", "1", "--yes", "--runs-dir", "runs"],
                ["train", "--resume", run],
                ["train", "--load-model", "--runs-dir", "runs"],
            )
        )

    def _snapshot(self, rng: random.Random) -> list[str]:
        about = changed(rng, self._about) if rng.random() < 0.7 else self._about
        weights = dict(self._weights)
        if rng.random() < 0.3:
            name = rng.choice(list(weights))
            tensor = weights.pop(name)
            if rng.random() < 0.7:
                weights[name] = rng.choice((tensor[:1], tensor.double(), tensor.flatten(), tensor * float("nan")))
        data = safetensors.torch.save(
            {k: v.contiguous() for k, v in weights.items()}, {"snakes_3v3": json.dumps(about)}
        )
        if rng.random() < 0.4:
            head = min(len(data), 4000)
            data = damaged(rng, data[:head]) + data[head:]
        file = str(self._written("team.safetensors", data))
        return ["export", file, "--safetensors", "x.safetensors"]

    def _written(self, name: str, data: bytes) -> Path:
        file = self.folder / f"case_{name}"
        file.write_bytes(data)
        return file


def _check(code: int, out: str, err: str) -> None:
    assert code in (0, 2), f"exit code {code}: {err}"
    assert "Traceback" not in out + err, err
    assert "\x1b" not in err, repr(err)
    if code == 2:
        *_, last = err.splitlines() or [""]
        assert last.startswith("snakes: "), repr(err)
        assert len(last) < 4000, f"{len(last)} letters"


# --- damage


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes with one to three kinds of damage."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 4, 30, 1000)))
        what = rng.randrange(7)
        if what == 0:
            data = data[:at] + bytes(byte ^ 1 << rng.randrange(8) for byte in data[at:end]) + data[end:]
        elif what == 1:
            data = data[:at] + data[end:]
        elif what == 2:
            data = data[:end] + data[at:end] * rng.choice((1, 3)) + data[end:]
        elif what == 3:
            data = data[:at] + rng.randbytes(rng.choice((1, 3, 20))) + data[at:]
        elif what == 4:
            data = data[:at]
        elif what == 5:
            numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data[:20_000]))
            if numbers:
                found = rng.choice(numbers)
                word = rng.choice((b"-1", b"1e999", b"NaN", b"9" * 30, b"null", b'"x"', b"[]", b"0.5", b"01", b"1_0"))
                data = data[: found.start()] + word + data[found.end() :]
        else:
            data = data[:at] + rng.choice((b"[", b"{", b"&a *a ", b": ", b"\t", b"\n- ", b"%", b'"')) * 40 + data[at:]
    return data


def changed(rng: random.Random, value: Any) -> Any:
    """The JSON value with one part of it replaced, removed or added."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.05:
        return rng.choice(ODD_VALUES)
    value = value.copy()
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    what = rng.random()
    if what < 0.15:
        del value[key]
    elif what < 0.25:
        if isinstance(value, dict):
            value[rng.choice(("x", "", *map(str, keys)))] = rng.choice(ODD_VALUES)
        else:
            value.insert(key, rng.choice([*ODD_VALUES, value[key]]))
    elif what < 0.4:
        value[key] = value[rng.choice(keys)]
    else:
        value[key] = changed(rng, value[key])
    return value


def _garbled(rng: random.Random, word: str) -> str:
    at = rng.randrange(len(word) + 1)
    return word[:at] + rng.choice([*string.punctuation, "x", "\x1b", "é", ""]) + word[at + rng.randrange(3) :]


# --- the process around a case


@contextmanager
def limited_time() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {HANG} s of CPU time, or waits for more than {WAIT} s")

    before = [(number, signal.signal(number, stop)) for number in (signal.SIGALRM, signal.SIGPROF)]
    signal.setitimer(signal.ITIMER_REAL, WAIT)
    signal.setitimer(signal.ITIMER_PROF, HANG)
    try:
        yield
    finally:
        for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def _without_long_work(folder: Path) -> Iterator[None]:
    """Nothing is trained, launched or shown in a window; files go to the folder."""
    from marl.cli.main import COMMANDS
    from marl.commands.train_here import TrainingEnd

    before = os.getcwd()
    os.chdir(folder)
    with ExitStack() as patches, open(os.devnull) as nothing:
        launches = ("launch.launch", "launch.set_environment", "fork_launch.launch_forked")
        commands = ("launch_flags._load_training", "train.dry_run")
        for target in (*(f"ranks.{name}" for name in launches), *(f"commands.{name}" for name in commands)):
            patches.enter_context(mock.patch(f"marl.{target}", return_value=0))
        for name in ("train", "training_jobs"):
            patches.enter_context(mock.patch(f"marl.commands.{name}.train_here", return_value=TrainingEnd()))
        for name in ("train_seeds.run_jobs", "sweep.run_jobs", "exploit._job"):
            patches.enter_context(mock.patch(f"marl.commands.{name}", side_effect=SystemExit(0)))
        patches.enter_context(mock.patch("marl.commands.replay._watch"))
        patches.enter_context(mock.patch("sys.stdin", nothing))
        for name in STUBBED:
            module = importlib.import_module(COMMANDS[name][0])
            real = module.run
            patches.enter_context(mock.patch.object(module, "run", lambda args, real=real: _run_if_short(args, real)))
        try:
            yield
        finally:
            os.chdir(before)


def _run_if_short(args: Any, real: Callable[[Any], int]) -> int:
    """Exports of snapshots are short; all else ends here."""
    others = ("jidi", "onnx", "html", "torchscript")
    if getattr(args, "safetensors", None) and not any(getattr(args, name, None) for name in others):
        return real(args)
    return 0

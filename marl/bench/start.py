"""Where the time goes between Enter and the first line of a training, and between its last update and the prompt.

Two starts of `train` in processes of their own, as a user starts them: one that finds no compiled code (it has an empty
folder of its own for it), and one after it. start_probe.py is the program of both.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marl.config.train_config import read_config
from marl.errors import UserError
from marl.ranks import environment

PROGRAM = ("-m", "marl.bench.start_probe")
FIRST_LINE, TRAINING, END = "first line", "training", "end"
STARTS = ("cold", "warm")
SHOWN = {
    FIRST_LINE: "from Enter to the first line",
    TRAINING: "from there to the first updates",
    END: "from the last update to the prompt",
}
EXIT = "exit of Python"
LEAST = 0.05  # seconds: shorter parts are one row


def measure_starts(words: Sequence[str]) -> dict[str, Any]:
    """A cold and a warm start of `train` with these flags, ready for JSON. Seconds are wall time but for `cpu`."""
    if environment.is_rank():
        raise UserError("bench start starts its process itself; call it without torchrun")
    read_config(words)  # a mistake is reported before anything is measured
    with tempfile.TemporaryDirectory(prefix="snakes_start_") as folder:
        return {"words": list(words), "starts": {name: _start(words, Path(folder), name) for name in STARTS}}


def _start(words: Sequence[str], folder: Path, name: str) -> dict[str, Any]:
    report = folder / f"{name}.json"
    settings = os.environ | {"NUMBA_CACHE_DIR": str(folder / "numba"), "XDG_CACHE_HOME": str(folder / "choices")}
    settings.pop("LOCAL_RANK", None)
    run = ("--runs_dir", str(folder / "runs"), "--run_name", name, "--resume", "never")
    cpu = _cpu_of_children()
    began = time.time()
    command = [sys.executable, *PROGRAM, str(report), str(began), "train", *words, *run]
    done = subprocess.run(command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    total = time.time() - began
    if done.returncode or not report.is_file():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"the {name} start ended with code {done.returncode}: {last.removeprefix('snakes: ')}")
    return {"seconds": total, "cpu": _cpu_of_children() - cpu, "stages": _stages(json.loads(report.read_text()), total)}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _stages(found: dict[str, Any], total: float) -> dict[str, Any]:
    """Seconds of each stage, of its parts by kind, and of the items of a kind, longest first."""
    stages, before = {}, 0.0
    for stage in SHOWN:
        end = total if stage == END else found["ends"][stage]
        parts: dict[str, dict[str, float]] = defaultdict(dict)
        for kind, item, seconds in sorted(found["parts"][stage], key=lambda part: -part[2]):
            parts[kind][item] = seconds
        if stage == END:
            parts[EXIT][""] = total - found["ends"][END]
        kinds = {
            kind: {"seconds": sum(items.values()), "items": {name: s for name, s in items.items() if name}}
            for kind, items in parts.items()
        }
        stages[stage] = {
            "seconds": end - before,
            "parts": dict(sorted(kinds.items(), key=lambda part: -part[1]["seconds"])),
        }
        before = end
    return stages


def table(report: dict[str, Any]) -> str:
    """The report as a user reads it: seconds of both starts, side by side."""
    cold, warm = (report["starts"][name] for name in STARTS)
    lines = [
        f"command: train {' '.join(report['words'])}".rstrip() + ", ended after the first updates",
        "cold: no compiled code; warm: the same start again. Seconds.",
        "",
        f"{'':44} {'cold':>7} {'warm':>7}",
    ]
    for stage, text in SHOWN.items():
        both = (cold["stages"][stage], warm["stages"][stage])
        lines.append(_row(text, *(each["seconds"] for each in both)))
        for kind in dict.fromkeys(kind for each in both for kind in each["parts"]):
            parts = [each["parts"].get(kind, {"seconds": 0.0, "items": {}}) for each in both]
            seconds = [part["seconds"] for part in parts]
            if max(seconds) < LEAST:
                continue
            lines.append(_row(f"  {kind}", *seconds))
            shown: tuple[float, float] = (0.0, 0.0)
            for item in dict.fromkeys(name for part in parts for name in part["items"]):
                pair = tuple(part["items"].get(item, 0.0) for part in parts)
                if max(pair) >= LEAST:
                    lines.append(_row(f"    {item}", *pair))
                else:
                    shown = (shown[0] + pair[0], shown[1] + pair[1])
            if max(shown) >= LEAST:
                lines.append(_row("    all others", *shown))
    lines += [_row("in all", cold["seconds"], warm["seconds"]), _row("CPU time", cold["cpu"], warm["cpu"])]
    return "\n".join(lines)


def _row(text: str, cold: float, warm: float) -> str:
    return f"{text:44} {cold:7.2f} {warm:7.2f}"

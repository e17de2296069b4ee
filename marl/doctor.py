"""snakes doctor: what is installed, what there is to run on, and whether the arena plays right here."""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from marl import machine

MATCHES = 64
# Of the self-check's matches after their last turn, under rules version 1.
CHECKSUM = "9dc599e78b325131"
REINSTALL = "run ./train_ddp.sh --help, which repairs .venv"


class Check(NamedTuple):
    """One thing that must be right; `fix` says what to do where it is not."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit code 0 if every check passes, 1 if one fails."
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def run(args: argparse.Namespace) -> int:
    report: dict[str, Any] = {"versions": machine.versions(), "cpu": machine.processor(), "gpus": [], "backend": None}
    checks = [_imports()]
    if checks[0].ok:
        report["gpus"] = machine.gpus()
        report["backend"] = _backend()
        checks += [_cache(), _self_check("cpu"), *_gpu_checks()]
    ok = all(check.ok for check in checks)
    if args.json:
        print(json.dumps({**report, "checks": [check._asdict() for check in checks], "ok": ok}, indent=2))
    else:
        _print_report(report, checks)
    return 0 if ok else 1


def _imports() -> Check:
    try:
        import arena
    except ImportError as error:
        return Check("packages", False, str(error), REINSTALL)
    return Check("packages", True, f"the arena loads, rules version {arena.RULES_VERSION}")


def _backend() -> str:
    import torch

    return "nccl" if platform.system() == "Linux" and torch.cuda.is_available() else "gloo"


def _cache() -> Check:
    import numba

    folder = Path(numba.config.CACHE_DIR)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fix = "make it writable, or set NUMBA_CACHE_DIR to a folder that is; until then every start compiles"
        return Check("cache", False, f"{folder}: {error.strerror}", fix)
    return Check("cache", True, str(folder))


def _gpu_checks() -> list[Check]:
    import torch

    if torch.cuda.is_available():
        if machine.versions()["numba-cuda"] is None:
            return [Check("gpu", False, "numba-cuda is missing", "pip install -e '.[gpu]', or " + REINSTALL)]
        return [_self_check("cuda")]
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1") or not _driver_sees_gpu():
        return []
    why = "was built without CUDA" if torch.version.cuda is None else f"needs a driver for CUDA {torch.version.cuda}"
    return [Check("gpu", False, f"the driver sees a GPU, torch does not: it {why}", "install a torch that fits")]


def _driver_sees_gpu() -> bool:
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode == 0
    except OSError:
        return False


def _self_check(device: str) -> Check:
    name = f"self-check on {device}"
    try:
        found = checksum(device)
    except Exception as error:  # whatever it is, the report is where the user wants to read it
        return Check(name, False, f"{type(error).__name__}: {error}".splitlines()[0], REINSTALL)
    if found != CHECKSUM:
        fix = "remove the cache folder; if it stays, these package versions compile the rules wrongly: " + REINSTALL
        return Check(name, False, f"{MATCHES} matches ended differently ({found}, should be {CHECKSUM})", fix)
    return Check(name, True, f"{MATCHES} matches ended as they should")


def checksum(device: str) -> str:
    """Play matches with moves that depend on nothing but arithmetic, and digest how they end."""
    import torch

    from arena import BatchArena
    from arena.rules import SNAKES, TURNS

    batch = BatchArena(MATCHES, device, seed=2026)
    batch.start()
    seats = torch.arange(MATCHES * SNAKES).view(MATCHES, SNAKES)
    for turn in range(TURNS):
        moves = (seats * 7919 + turn * 104729) // 97 % 4
        batch.play_turn(moves.to(device))
    ends = json.dumps([batch.get_match(i) for i in range(MATCHES)])
    return hashlib.sha256(ends.encode()).hexdigest()[:16]


def _print_report(report: dict[str, Any], checks: list[Check]) -> None:
    for name, version in report["versions"].items():
        print(f"{name:12} {version or 'missing'}")
    cpu = report["cpu"]
    print(f"{'CPU':12} {cpu['model']}, {cpu['cores']} cores, {cpu['memory_gib']} GiB")
    for i, gpu in enumerate(report["gpus"]):
        print(f"{f'GPU {i}':12} {gpu['name']}, {gpu['memory_gib']} GiB")
    if not report["gpus"]:
        print(f"{'GPU':12} none")
    print(f"{'backend':12} {report['backend'] or 'unknown'}")
    for check in checks:
        print(f"{'ok' if check.ok else 'FAILED':12} {check.name}: {check.detail}{'' if check.ok else ': ' + check.fix}")

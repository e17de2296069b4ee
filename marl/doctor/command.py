"""snakes doctor: checks of the installation, the arena's results, the ranks and the run folder's disk.

With a path: the contents of a saved run or checkpoint, and whether it is intact. With --ranks: what more ranks bring.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from marl.cli.arguments import flag_names, positive, positive_int, split_own
from marl.cli.invocation import TRAIN, command
from marl.cli.wording import size_text
from marl.compute import machine
from marl.doctor.check import REINSTALL, Check, tell
from marl.errors import UserError
from marl.storage.run_folder import GROUP, listing
from marl.storage.run_names import find_named

MATCHES = 64  # of the self-check
CHECKSUM = "9dc599e78b325131"  # of the self-check's matches after their last turn, under rules version 1
ROOM = 256 * 2**20  # bytes that must be free: less holds no run, and must not be filled by the measurement
CHUNK, CHUNKS = 16 * 2**20, 4  # bytes per write and number of writes that measure the disk
OWN_BESIDE_RANKS = {"-h": False, "--help": False, "--json": False, "--ranks": True, "--seconds": True}
TRAINS = True  # the words set aside are those of a training
PATIENCE = 2.0  # seconds after which the measurement ends early: some disks are slow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit code 0 if every check passes, 1 if one fails. --ranks takes the flags of train as well: "
        "doctor --ranks 8 --scaling weak."
    )
    parser.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help="check this run (or last), checkpoint or pointer file instead of the machine",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    parser.add_argument("--backend", choices=("gloo", "nccl"), help="backend of the ranks (default: as in training)")
    parser.add_argument("--runs-dir", default="runs", metavar="DIR", help="folder of all runs (default: runs)")
    parser.add_argument(
        "--ranks",
        type=positive_int,
        metavar="N",
        help="instead of the checks: train with 1, 2, 4, ... N ranks for some seconds each, as bench scaling does, "
        "print the table of speeds, and compare the parameters of all ranks",
    )
    parser.add_argument("--seconds", type=positive, metavar="S", help="--ranks: time for each number (default: 5)")


def set_aside(argv: list[str]) -> tuple[list[str], list[str]]:
    """The doctor's own arguments, and beside --ranks those that the configuration of training reads."""
    return split_own(argv, OWN_BESIDE_RANKS) if "--ranks" in flag_names(argv) else (argv, [])


def run(args: argparse.Namespace) -> int:
    if args.ranks is not None:
        return _run_ranks(args)
    if args.seconds is not None:
        raise UserError("--seconds is about --ranks, which is missing")
    if args.path is not None:
        args.path = str(find_named(args.path, args.runs_dir))
        _check_exists(args.path)
    tell("packages")
    report: dict[str, Any] = {"versions": machine.versions(machine.PACKAGES + machine.TRAINING_PACKAGES)}
    checks = [_packages(report["versions"])]
    if args.path is not None:
        report["checkpoints"] = []
        if checks[0].ok:
            from marl.doctor import checkpoint_check

            tell(args.path)
            report["checkpoints"], found = checkpoint_check.examine(args.path)
            checks += found
    else:
        report |= {"cpu": machine.processor(), "gpus": [], "backend": None, "ranks": None, "runs_dir": None}
        if checks[0].ok:
            checks += _machine(report, args)
    ok = all(check.ok for check in checks)
    if args.json:
        print(json.dumps({**report, "checks": [check._asdict() for check in checks], "ok": ok}, indent=2))
    else:
        _print_checkpoints(report["checkpoints"]) if args.path is not None else _print_machine(report)
        _print_checks(checks)
    return 0 if ok else 1


def _run_ranks(args: argparse.Namespace) -> int:
    from marl.bench.scaling import RanksFailed
    from marl.doctor import rank_table

    about = {"versions": machine.versions(), "cpu": machine.processor(), "gpus": machine.gpus()}
    try:
        reports, checks = rank_table.examine(args.ranks, args.set_aside, args.seconds or rank_table.SECONDS)
    except RanksFailed as error:  # the ranks have told it
        return error.code
    ok = all(check.ok for check in checks)
    if args.json:
        report = {**about, "scaling": reports, "checks": [check._asdict() for check in checks], "ok": ok}
        print(json.dumps(report, indent=2))
        return 0 if ok else 1
    _print_facts(about)
    seconds = [] if args.seconds is None else ["--seconds", f"{args.seconds:g}"]
    print(f"{'command':12} {command('doctor', '--ranks', str(args.ranks), *seconds, *args.set_aside)}")
    print(f"{'date':12} {time.strftime('%Y-%m-%d')}\n\n{rank_table.table(reports)}\n")
    _print_checks(checks)
    print(f"\n{rank_table.SEND}")
    return 0 if ok else 1


def _check_exists(path: str) -> None:
    # A checkpoint has another name for a moment while it is replaced; checkpoint_check knows that name.
    if not os.path.lexists(path) and Path(path).parent.name != "checkpoints":
        raise UserError(f"there is no run or checkpoint {path!r}; give the folder of one")


def _machine(report: dict[str, Any], args: argparse.Namespace) -> list[Check]:
    from marl.doctor import rank_check

    report["gpus"] = machine.gpus()
    checks = [_cache()]
    tell("the sandbox of submissions")
    checks.append(_sandbox())
    tell("torch's products")
    checks.append(_products())
    tell(f"the game: {MATCHES} matches on the CPU")
    checks.append(_self_check("cpu"))
    tell("GPUs")
    checks += _gpu_checks()
    tell("ranks")
    report["ranks"], found = rank_check.examine(args.backend)
    report["backend"] = report["ranks"].pop("backend")
    tell("the disk of the run folder")
    report["runs_dir"], disk = _disk(args.runs_dir)
    return [*checks, *found, disk]


def _packages(versions: dict[str, str | None]) -> Check:
    # numba-cuda is needed only with a GPU: _gpu_checks looks for it.
    missing = [name for name, version in versions.items() if version is None and name != "numba-cuda"]
    try:
        import arena
    except ImportError as error:
        return Check("packages", False, str(error), REINSTALL)
    if missing:
        return Check("packages", False, f"missing: {', '.join(missing)}", REINSTALL)
    return Check("packages", True, f"all there; the arena loads, rules version {arena.RULES_VERSION}")


def _cache() -> Check:
    from arena.jit import cache_folder

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fix = "make it writable, or set NUMBA_CACHE_DIR to a folder that is; until then every start compiles"
        return Check("cache", False, f"{folder}: {error.strerror}", fix)
    return Check("cache", True, str(folder))


def _sandbox() -> Check:
    """No failure where it is missing: only submissions need it."""
    from opponents.sandbox.process import why_not_sandboxed

    reason = why_not_sandboxed()
    return Check("sandbox", True, f"none ({reason}); submissions need --uncaged" if reason else "submissions run in it")


def _products() -> Check:
    """No failure where compiled code cannot multiply: torch's functions are slower, and as right."""
    from marl.fast.blas import sgemm_name

    name = sgemm_name()
    detail = f"compiled code calls torch's {name}" if name else "torch shows no BLAS function; CPU ranks are slower"
    return Check("products", True, detail)


def _gpu_checks() -> list[Check]:
    import torch

    if torch.cuda.is_available():
        if machine.versions()["numba-cuda"] is None:
            from arena.extras import install_hint

            return [Check("gpu", False, "numba-cuda is missing", f"{install_hint('gpu')}, or {REINSTALL}")]
        return [_self_check("cuda"), _compiler("cuda")]
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1") or not _driver_sees_gpu():
        return []
    why = "was built without CUDA" if torch.version.cuda is None else f"needs a driver for CUDA {torch.version.cuda}"
    return [Check("gpu", False, f"the driver sees a GPU, torch does not: it {why}", "install a torch that fits")]


def _compiler(device: str) -> Check:
    """Not a fault: the text of the learners then runs as it stands."""
    import torch

    try:
        torch.compile(torch.square)(torch.ones(8, device=device))
    except Exception as error:  # of any kind: of the compiler's, of Triton's, of the C compiler's
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return Check("compiler", True, f"long trainings are slower, torch cannot compile: {reason[:200]}")
    return Check("compiler", True, "torch compiles for the GPU")


def _driver_sees_gpu() -> bool:
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode == 0
    except OSError:
        return False


def _self_check(device: str) -> Check:
    name = f"self-check on {device}"
    try:
        found = checksum(device)
    except Exception as error:  # of any kind: it belongs into the report
        return Check(name, False, f"{type(error).__name__}: {error}".splitlines()[0], REINSTALL)
    if found != CHECKSUM:
        fix = "remove the cache folder; if it stays, these package versions compile the rules wrongly: " + REINSTALL
        return Check(name, False, f"{MATCHES} matches ended differently ({found}, should be {CHECKSUM})", fix)
    return Check(name, True, f"{MATCHES} matches ended as they should")


def checksum(device: str) -> str:
    """Digest of the ends of matches whose moves come from arithmetic alone."""
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


def _disk(runs_dir: str) -> tuple[dict[str, Any], Check]:
    """Write speed and free space of the run folder, or of its nearest parent that exists."""
    report: dict[str, Any] = {"path": runs_dir, "write_mb_s": None, "free_gib": None}
    folder = (Path(runs_dir) / GROUP).absolute()
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    fix = "make it writable, or choose another folder with --runs_dir"
    try:
        free = shutil.disk_usage(folder).free
        report["free_gib"] = round(free / 2**30, 1)
        if free < ROOM:
            detail = f"{folder}: only {free / 2**20:,.0f} MiB are free"
            return report, Check("run folder", False, detail, "free some, or choose another disk with --runs_dir")
        report["write_mb_s"] = _write_speed(folder)
    except OSError as error:
        return report, Check("run folder", False, f"{folder}: {error.strerror or error}", fix)
    detail = f"{runs_dir}: {report['write_mb_s']:,} MB/s, {report['free_gib']:,} GiB free"
    return report, Check("run folder", True, detail)


def _write_speed(folder: Path) -> float:
    """MB/s that reach the disk. The file has no name, so it vanishes with this process, however that ends."""
    data = os.urandom(CHUNK)  # random: a disk that compresses shall have no advantage
    written, begin = 0, time.perf_counter()
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        while written < CHUNKS * CHUNK and time.perf_counter() - begin < PATIENCE:
            written += file.write(data)
            os.fsync(file.fileno())
        return round(written / (time.perf_counter() - begin) / 1e6, 1)


def _print_checks(checks: list[Check]) -> None:
    for check in checks:
        end = "" if check.ok else ": " + check.fix
        print(f"{'ok' if check.ok else 'FAILED':12} {check.name}: {check.detail}{end}")


def _print_machine(report: dict[str, Any]) -> None:
    _print_facts(report)
    print(f"{'backend':12} {report['backend'] or 'unknown'}")
    if report["ranks"] and report["ranks"]["train_ddp"]:
        print(f"{'ranks':12} {report['ranks']['train_ddp']} if started by {TRAIN}")


def _print_facts(report: dict[str, Any]) -> None:
    for name, version in report["versions"].items():
        print(f"{name:12} {machine.version_text(name, version, bool(report['gpus']))}")
    print(f"{'CPU':12} {machine.processor_text(report['cpu'])}")
    for i, gpu in enumerate(report["gpus"]):
        print(f"{f'GPU {i}':12} {gpu['name']}, {gpu['memory_gib']} GiB")
    if not report["gpus"]:
        print(f"{'GPU':12} none")


def _print_checkpoints(checkpoints: list[dict[str, Any]]) -> None:
    for about in checkpoints:
        shown: dict[str, Any] = {name: "unknown" if value is None else value for name, value in about.items()}
        body = shown["body"] if isinstance(shown["body"], list) else [shown["body"]]
        files = [f"{name} {size_text(size)}" for name, size in shown["files"].items()]
        for title, text in (
            ("checkpoint", shown["path"]),
            ("saved", f"at episode {shown['episode']} by {shown['algo']}, ranks: {shown['world_size']}"),
            (
                "made for",
                f"rules version {shown['rules']}, encoder {shown['encoder']} version {shown['encoder_version']}",
            ),
            ("network", " -> ".join(map(str, [shown["encoder"], *body]))),
            ("weights", f"{shown['weights']:,} in {shown['tensors']} tensors"),
            ("files", listing(files)),
        ):
            print(f"{title:12} {text}")

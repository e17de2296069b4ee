"""Shared by all tests: the repository on the path, the order of the files, and the machine's reasons to skip."""

import atexit
import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from helpers import posix_only

gc.disable()  # while tests are collected: nothing becomes garbage, and looking for it takes a worker more than a second
ROOT = Path(__file__).resolve().parent.parent
# Not left to an installation: tests/arena must never be taken for the package `arena`.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
# Measured choices of threads and oneDNN: tests neither read nor write those of the user. All workers share the folder
# of the process that starts them.
if "PYTEST_XDIST_WORKER" not in os.environ:
    CACHE = tempfile.mkdtemp(prefix="snakes-cache-")
    os.environ["XDG_CACHE_HOME"] = CACHE
    atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
# Ctrl-C is a KeyboardInterrupt, also in programs that tests start: a shell ignores it for what runs in its background.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Threads that have nothing to do sleep at once: they would take the time of other test processes.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Programs that tests start find the same packages, and their helpers.
PLACES = (str(ROOT), str(ROOT / "tests"))
os.environ["PYTHONPATH"] = os.pathsep.join((*PLACES, *filter(None, [os.environ.get("PYTHONPATH")])))

# Files that take longest, the longest first: ./test.sh hands out whole files, and the last ones shall be short.
# Files that mostly wait (W) stand between those that mostly compute. The second one does not need the shared server,
# which compiles for most of a minute in a fresh checkout.
LONGEST = (
    "marl/training/test_resume.py",
    "marl/export/test_jidi_submission.py",
    "test_slurm.py",  # W
    "marl/fast/test_compiled_text.py",
    "marl/training/test_train_ranks.py",
    "marl/test_process_state.py",
    "marl/training/test_evaluation.py",  # W
    "marl/learners/test_learning.py",
    "marl/ranks/test_faults.py",  # W
    "test_readme_commands.py",
    "test_without_posix.py",
    "attack/test_attacks.py",
    "marl/export/test_play_page.py",
    "marl/export/test_planned_submission.py",
    "marl/config/test_configs.py",
    "marl/ranks/test_process_group.py",  # W
    "marl/test_train_api.py",
    "opponents/test_submission.py",
    "marl/export/test_old_pythons.py",
    "marl/training/test_resume_plan.py",
    "marl/learners/test_ppo_ranks.py",
    "test_architecture.py",
    "marl/commands/test_eval.py",
    "marl/ranks/test_launch.py",  # W
    "marl/commands/test_train_league.py",
    "marl/commands/test_exploit.py",
    "marl/commands/test_report_command.py",
    "marl/learners/test_ppo.py",
    "marl/ranks/test_two_hosts.py",  # W
    "marl/analysis/test_pages.py",
    "arena/backends/test_parity.py",
    "marl/learners/test_ddpg.py",
    "marl/doctor/test_doctor.py",
    "marl/training/test_slow_disk.py",  # W
    "marl/learners/test_ppo_lstm.py",
    "marl/learners/test_ppo_learning.py",
    "arena/render/test_viewer.py",
    "marl/export/test_play_page_opponents.py",
    "test_odd_places.py",
    "marl/ranks/test_elastic.py",  # W
    "arena/encoders/test_encoders.py",
    "test_edited_text.py",
    "marl/learners/test_flat_memory.py",
    "marl/training/test_league_runs.py",
    "marl/training/test_named_opponents.py",
    "arena/render/test_window.py",  # W
    "opponents/test_league_decision.py",
    "marl/cli/test_main.py",
    "marl/storage/test_checkpoint.py",
    "marl/commands/test_play.py",  # W
    "marl/export/test_check.py",
    "marl/commands/test_grade.py",
    "marl/commands/test_league_folder.py",
    "marl/learners/test_gradients_of_ranks.py",
    "marl/training/test_train.py",
    "marl/bench/test_speedrun.py",  # W
    "marl/bench/test_bench_train.py",
    "marl/metrics/test_wandb_run.py",
    "arena/test_golden.py",
    "arena/test_environment.py",
    "arena/encoders/test_new_encoder.py",
    "test_notebooks.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="attacks: also those that take long, and many more cases")
    shuffle = "tests of a file, and files, in an order that this number gives: none may depend on another one"
    parser.addoption("--shuffle", type=int, metavar="SEED", help=shuffle)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_cuda: runs only where torch sees a CUDA device")
    config.addinivalue_line("markers", "in_order: tests of a file that follow each other, also with --shuffle")
    if config.getoption("numprocesses", None) and _runs_all(config) and "PYTEST_XDIST_WORKER" not in os.environ:
        from helpers.forking import start_shared_server

        start_shared_server()  # in the process that starts the workers: a server of each takes 5 s of a core
        _refresh_git()
    if "PYTEST_XDIST_WORKER" in os.environ and _runs_all(config):
        _send_less(config)


def _refresh_git() -> None:
    """Every training asks git whether files were edited. As long as git's index is of the same second as the files, as
    in a fresh clone, git reads all of them: 0.15 s of a core for each training. `git status` would refresh it as well.
    """
    with suppress(OSError):
        subprocess.run(["git", "-C", str(ROOT), "update-index", "-q", "--refresh"], capture_output=True)


def _send_less(config: pytest.Config) -> None:
    """A worker does not report that a test begins, nor that its set-up and its end went well: nothing is shown of it,
    and with 6,000 tests it takes 4 s of a core."""
    (worker,) = (plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent"))
    send = worker.sendevent

    def send_shown(name: str, **values: Any) -> None:
        report = values["data"] if name == "testreport" else {"outcome": "", "when": ""}
        if name != "logstart" and (report["outcome"] != "passed" or report["when"] == "call"):
            send(name, **values)

    worker.sendevent = send_shown


def _runs_all(config: pytest.Config) -> bool:
    return [Path(arg).resolve() for arg in config.args] == [Path(__file__).parent]


def pytest_sessionstart(session: pytest.Session) -> None:
    """In a run of all tests, every worker loads another part of the test files first.

    pytest rewrites the assertions of a file, and keeps the result beside it as bytecode. Workers that load the files in
    the same order would all do so for all files, which takes 7 s of a core; now each does it for its part.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    tests = Path(__file__).parent
    if worker is None or sys.dont_write_bytecode or not _runs_all(session.config):
        return
    files = sorted(tests.rglob("test_*.py"))
    first = len(files) * int(worker.removeprefix("gw")) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for file in files[first:] + files[:first]:
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))
        with suppress(Exception, pytest.skip.Exception), warnings.catch_warnings():  # collection tells it
            warnings.simplefilter("ignore")
            import_module(file.stem)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Where Python cannot fork, a file that needs POSIX is skipped before it is loaded."""
    reason = None if hasattr(os, "fork") else posix_only.group(module_path)
    if reason is None:
        return None
    module = SkippedModule.from_parent(parent, path=module_path)
    module.reason = f"needs POSIX: {reason}"
    return module


class SkippedModule(pytest.Module):
    """A file that is not loaded."""

    reason = ""

    def collect(self) -> Any:
        raise pytest.skip.Exception(self.reason, allow_module_level=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    order = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    seed = config.getoption("shuffle")
    if seed is not None:  # whole files: fixtures of a file are made once
        drawn = random.Random(seed)
        drawn.shuffle(free := [item for item in items if item.get_closest_marker("in_order") is None])
        items[:] = [*free, *(item for item in items if item.get_closest_marker("in_order"))]
        files = list(dict.fromkeys(item.path for item in items))
        drawn.shuffle(files)
        order = {file: place for place, file in enumerate(files)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


def pytest_collection_finish() -> None:
    gc.freeze()  # modules and tests stay to the end: collections need not look through them
    gc.enable()
    atexit.register(gc.freeze)  # Python looks through all objects once more at exit
    if sys.platform != "win32":
        from helpers import compile_in_turn

        compile_in_turn.install()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line on what was skipped and why: what this machine lacks."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", ())
    )
    if reasons:
        groups = "; ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        terminalreporter.write_line(f"skipped here: {groups}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "torch" in sys.modules:
        # Workers share the cores, and trainings of tests are small: with two threads they take half as much CPU time
        # again. Tests of threads set their own; trainings in processes of their own have the default. For every test:
        # where torch and Numba use one OpenMP library (x86), the start of Numba's threads sets torch's to all cores.
        if "numba" in sys.modules:
            sys.modules["numba"].get_num_threads()  # starts them
        sys.modules["torch"].set_num_threads(1)
    if item.get_closest_marker("needs_cuda") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch sees no CUDA device")


@pytest.fixture
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Test processes share the cores, and small products gain nothing from more. Tells the file's seed."""
    import torch

    print(f"seed {request.module.SEED}")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def without_onednn() -> Iterator[None]:
    """As trainings choose on ARM, where it is slower; of no effect on x86, where torch's products are not oneDNN's."""
    from torch.backends import mkldnn

    before, mkldnn.enabled = mkldnn.enabled, False
    yield
    mkldnn.enabled = before

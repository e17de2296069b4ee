"""The set-up scripts, played through in a copy of the repository with a Python that only pretends to install."""

import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ("train_ddp.sh", "test.sh", "scripts/venv.sh", "scripts/old_pythons.sh", "containers/set_up.sh", ".ci/run")

# Answers what the scripts ask of python and pip, and writes down every install and every start of a module.
FAKE_PYTHON = """#!/usr/bin/env bash
case "$1 $2" in
    "-c "*) [ ! -e "$FAKE/old_python" ] ;;
    "--version ") echo "Python 3.9.2" ;;
    "-m venv")
        mkdir -p "$3/bin"
        cp "$0" "$3/bin/python"
        printf '#!/usr/bin/env bash\\necho "pip 1 from %s/lib"\\n' "$PWD/$3" >"$3/bin/pip"
        chmod +x "$3/bin/pip"
        echo "venv" >>"$FAKE/calls" ;;
    "-m pip")
        echo "$*" >>"$FAKE/calls"
        if [ -e "$FAKE/hold" ]; then echo install >"$FAKE/events"; read -r <"$FAKE/go"; fi
        if [ -e "$FAKE/no_network" ]; then echo "ERROR: no network"; exit 1; fi ;;
    *)
        echo "run in $PWD: $*"
        [ ! -e "$FAKE/$2_fails" ] ;;
esac
"""


# A cluster: srun tells how it was called and, while there is a file `hold`, runs on until scancel asks it to end.
FAKE_SRUN = """#!/usr/bin/env bash
echo "srun $*"
if [ -e "$FAKE/hold" ]; then
    echo running >"$FAKE/events"
    read -r code <"$FAKE/go"
    exit "$code"
fi
"""
FAKE_SCANCEL = """#!/usr/bin/env bash
echo "scancel $*" >>"$FAKE/calls"
cat "$FAKE/hold" >"$FAKE/go"
"""
NODE_1 = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_NODEID": "1", "SLURM_STEP_NODELIST": "n[1-2]"}


class Sandbox:
    """A copy of the repository's set-up files, and a PATH on which python3 is the pretending one."""

    def __init__(self, folder: Path) -> None:
        self.fake = folder / "fake"
        self.repository = folder / "a repository"
        self.tools = "/usr/bin:/bin"
        self.fake.mkdir()
        for name in (
            *SCRIPTS,
            "scripts/slurm.sh",
            "pyproject.toml",
            *(lock.name for lock in ROOT.glob("requirements*.lock")),
        ):
            (self.repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.repository / name)
        self.put("python3", FAKE_PYTHON)
        self.put("nvidia-smi", '#!/usr/bin/env bash\n[ -e "$FAKE/gpu" ]\n')
        self.put("id", "#!/usr/bin/env bash\necho 0\n")
        self.put("dpkg", '#!/usr/bin/env bash\n[ -e "$FAKE/packages" ]\n')
        self.put("apt-get", '#!/usr/bin/env bash\necho "apt-get $*" >>"$FAKE/calls"\n[ ! -e "$FAKE/no_network" ]\n')

    def put(self, name: str, text: str) -> None:
        path = self.fake / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def without_old_pythons(self) -> None:
        """Pythons that the machine has are there and fail, as pyenv's launchers do."""
        for minor in range(6, 14):
            self.put(f"python3.{minor}", "#!/usr/bin/env bash\nexit 127\n")

    def only_tools(self, names: str) -> None:
        """Leave only these commands on the PATH."""
        tools = self.fake / "tools"
        tools.mkdir()
        for name in names.split():
            (tools / name).symlink_to(shutil.which(name))
        self.tools = str(tools)

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": f"{self.fake}:{self.tools}", "FAKE": str(self.fake), "HOME": str(self.fake), **more}

    def begin(self, script: str, *words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.repository / script, *words],
            cwd=self.fake,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start(self, script: str, *words: str, **more: str) -> tuple[int, str, str]:
        process = self.begin(script, *words, **more)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def calls(self) -> list[str]:
        """What was installed since the last question."""
        file = self.fake / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox(tmp_path)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_can_be_started_and_parse(script):
    assert os.access(ROOT / script, os.X_OK)
    assert subprocess.run(["bash", "-n", ROOT / script]).returncode == 0


def test_first_start_installs_and_the_second_does_not(sandbox):
    code, out, err = sandbox.start("train_ddp.sh", "--max_episodes", "a b")
    assert (code, err) == (0, "snakes: setting up .venv (once, about a minute) ...\n")
    assert out == f"run in {sandbox.fake}: -m marl train --distributed --max_episodes a b\n"
    calls = sandbox.calls()
    assert calls[0] == "venv"
    assert calls[1].endswith("-r requirements.lock")
    assert calls[2].endswith("--no-deps --no-build-isolation -e .")
    assert len(calls) == 3

    code, out, err = sandbox.start("train_ddp.sh")
    assert (code, err) == (0, "")
    assert out == f"run in {sandbox.fake}: -m marl train --distributed\n"
    assert sandbox.calls() == []


def test_on_a_terminal_the_set_up_shows_its_steps_and_the_time(sandbox):
    # pip names a package and waits until the terminal has shown it.
    speaking = 'echo "Collecting torch==2.11 (from x)"; if [ -e "$FAKE/go" ]; then read -r <"$FAKE/go"; fi'
    sandbox.put("python3", FAKE_PYTHON.replace('echo "$*" >>"$FAKE/calls"', speaking))
    os.mkfifo(sandbox.fake / "go")
    ours, theirs = pty.openpty()
    script, environment = sandbox.repository / "scripts/venv.sh", sandbox.environment()
    process = subprocess.Popen([script], env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen, go = b"", sandbox.fake / "go"
    try:
        while data := os.read(ours, 4096):
            seen += data
            if b" s  Collecting torch==2.11" in seen and go.exists():
                with open(go, "w") as answer:
                    go.unlink()  # the second call of pip does not wait
                    answer.write("\n")
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait(timeout=300) == 0, seen
    assert re.search(rb"\r\x1b\[Ksnakes: \d+ s  Collecting torch==2.11\r", seen)
    assert seen.endswith(b"\r\x1b[K")  # nothing of it stays


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_a_changed_file_installs_again_into_the_same_environment(sandbox, name):
    sandbox.start("scripts/venv.sh")
    sandbox.calls()
    with (sandbox.repository / name).open("a") as file:
        file.write("# changed\n")
    assert sandbox.start("scripts/venv.sh")[0] == 0
    calls = sandbox.calls()
    assert len(calls) == 2
    assert "venv" not in calls
    sandbox.start("scripts/venv.sh")
    assert sandbox.calls() == []


def test_a_moved_repository_gets_a_new_environment(sandbox):
    sandbox.start("scripts/venv.sh")
    sandbox.calls()
    sandbox.repository = sandbox.repository.rename(sandbox.repository.with_name("moved"))
    assert sandbox.start("scripts/venv.sh")[0] == 0
    assert sandbox.calls()[0] == "venv"


def test_a_failed_install_says_so_and_is_tried_again(sandbox):
    (sandbox.fake / "no_network").touch()
    code, out, err = sandbox.start("train_ddp.sh")
    assert (code, out) == (2, "")
    told = err.splitlines()[1:]
    assert len(told) == 1
    assert told[0].startswith("snakes: could not install run packages: ERROR: no network; see ")
    log = Path(told[0].partition("; see ")[2])
    assert "no network" in log.read_text()
    sandbox.calls()

    (sandbox.fake / "no_network").unlink()
    assert sandbox.start("train_ddp.sh")[0] == 0
    assert len(sandbox.calls()) == 2


def test_test_packages_come_with_test_sh_only(sandbox):
    sandbox.start("train_ddp.sh")
    assert not any("dev" in call for call in sandbox.calls())
    code, out, _ = sandbox.start("test.sh")
    assert code == 0
    calls = sandbox.calls()
    assert len(calls) == 1
    assert calls[0].endswith("-r requirements-dev.lock")
    ran = [line.partition(": ")[2] for line in out.splitlines()]
    assert [line.split()[1] for line in ran] == ["ruff", "ruff", "pytest"]


@pytest.mark.parametrize("tool", ["ruff", "mypy", "pytest"])
def test_test_sh_fails_with_each_of_its_tools(sandbox, tool):
    (sandbox.fake / f"{tool}_fails").touch()
    assert sandbox.start("test.sh")[0] == 1


def test_test_sh_shows_the_report_of_mypy_only_if_it_fails(sandbox):
    sandbox.start("scripts/venv.sh", "dev")
    assert sandbox.start("test.sh")[2] == ""
    (sandbox.fake / "mypy_fails").touch()
    code, out, err = sandbox.start("test.sh")
    assert (code, err) == (1, f"run in {sandbox.repository}: -m mypy\n")
    assert "-m pytest" in out, "the tests run to their end"


def test_test_sh_with_arguments_runs_just_those(sandbox):
    _, out, _ = sandbox.start("test.sh", "-k", "one thing")
    assert out == f"run in {sandbox.repository}: -m pytest -k one thing\n"


def test_ci_installs_what_tests_want_of_the_system_and_runs_them(sandbox):
    sandbox.without_old_pythons()
    code, out, err = sandbox.start(".ci/run")
    assert code == 0
    assert "-m pytest" in out
    assert "could not" not in err
    assert sandbox.calls()[0].endswith("install --no-install-recommends slurm-wlm munge iproute2 chromium xvfb xdotool")

    (sandbox.fake / "packages").touch()
    assert sandbox.start(".ci/run")[0] == 0
    assert sandbox.calls() == []


def test_ci_runs_the_tests_where_nothing_can_be_installed(sandbox):
    sandbox.without_old_pythons()
    sandbox.start("scripts/venv.sh", "dev")
    (sandbox.fake / "no_network").touch()
    code, out, err = sandbox.start(".ci/run")
    packages = "slurm-wlm munge iproute2 chromium xvfb xdotool"
    assert (code, err) == (0, f"snakes: could not install {packages}; tests that need them are skipped\n")
    assert "-m pytest" in out


def test_old_pythons_get_an_old_numpy_once(sandbox):
    """Of one that the machine has; the first numpy that can be had."""
    sandbox.without_old_pythons()
    sandbox.put("python3.7", FAKE_PYTHON)
    sandbox.start("scripts/venv.sh", "dev")
    sandbox.calls()
    (sandbox.fake / "no_network").touch()
    assert sandbox.start("scripts/old_pythons.sh") == (0, "", "")
    assert [call.split()[-1] for call in sandbox.calls()] == ["venv", "numpy==1.16.6", "numpy==1.19.5"]
    (sandbox.fake / "no_network").unlink()
    shutil.rmtree(sandbox.fake / ".cache")
    assert sandbox.start("scripts/old_pythons.sh") == (0, "", "")
    venv, install = sandbox.calls()
    place = sandbox.fake / ".cache" / "snakes_3v3" / "pythons" / "python3.7"
    assert venv == "venv"
    assert install.endswith(f"--target {place}/lib/python3.7/site-packages numpy==1.16.6")
    assert "--python-version 3.7 " in install
    assert sandbox.start("scripts/old_pythons.sh") == (0, "", "")
    assert sandbox.calls() == []


def test_gpu_packages_are_added_where_there_is_a_gpu(sandbox):
    sandbox.start("scripts/venv.sh")
    sandbox.calls()
    (sandbox.fake / "gpu").touch()
    assert sandbox.start("scripts/venv.sh")[0] == 0
    calls = sandbox.calls()
    assert len(calls) == 1
    assert calls[0].endswith("-r requirements-gpu.lock")
    (sandbox.fake / "gpu").unlink()  # another node of the cluster, without one
    sandbox.start("scripts/venv.sh")
    assert sandbox.calls() == []


def test_gpu_packages_can_be_asked_for_where_there_is_no_gpu(sandbox):
    assert sandbox.start("scripts/venv.sh", "gpu")[0] == 0
    assert "-r requirements.lock -r requirements-gpu.lock" in sandbox.calls()[1]
    sandbox.start("scripts/venv.sh")
    (sandbox.fake / "gpu").touch()  # the image runs on a node with one
    sandbox.start("scripts/venv.sh")
    assert sandbox.calls() == []


def test_an_environment_of_another_user_is_told_in_one_line(sandbox):
    sandbox.start("scripts/venv.sh")
    with open(sandbox.repository / "requirements.lock", "a") as file:
        file.write("# changed\n")
    lock = sandbox.repository / ".venv" / "setup.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()  # no user can write to it, not even root
    code, out, err = sandbox.start("train_ddp.sh")
    owner = (sandbox.repository / ".venv").owner()
    place = f"{sandbox.repository}/.venv"
    advice = "use a clone of your own"
    assert (code, out) == (2, "")
    assert err == f"snakes: cannot write to {place}, which belongs to {owner} and needs an update; {advice}\n"


def test_an_old_python_is_told_in_one_line(sandbox):
    (sandbox.fake / "old_python").touch()
    for version in (10, 11, 12, 13):
        sandbox.put(f"python3.{version}", FAKE_PYTHON)
    code, _, err = sandbox.start("train_ddp.sh")
    assert code == 2
    assert err.splitlines()[1:] == ["snakes: Python 3.10 to 3.13 is needed; python3 here is: Python 3.9.2"]


def test_another_python_is_taken_where_python3_is_old(sandbox):
    (sandbox.fake / "old_python").touch()
    sandbox.put("python3.12", FAKE_PYTHON.replace("old_python", "-"))
    assert sandbox.start("scripts/venv.sh")[0] == 0
    assert sandbox.calls()[0] == "venv"


@pytest.fixture
def slurm(sandbox):
    """The sandbox as the submit folder of a job of two nodes."""
    sandbox.start("scripts/venv.sh")
    sandbox.calls()
    sandbox.put("srun", FAKE_SRUN)
    sandbox.put("scancel", FAKE_SCANCEL)
    sandbox.put("scontrol", '#!/usr/bin/env bash\necho "scontrol $*" >>"$FAKE/calls"\necho localhost\n')
    given = sandbox.environment
    job = {"SLURM_JOB_ID": "12", "SLURM_JOB_NUM_NODES": "2", "SLURM_SUBMIT_DIR": str(sandbox.repository)}
    sandbox.environment = lambda **more: given(**{**job, **more})
    os.mkfifo(sandbox.fake / "events")
    os.mkfifo(sandbox.fake / "go")
    return sandbox


def test_a_copy_started_by_slurm_finds_the_repository_and_starts_one_task_per_node(slurm):
    spool = slurm.fake / "spool"
    spool.mkdir()
    shutil.copy(slurm.repository / "train_ddp.sh", spool / "slurm_script")
    in_a_step = {"SLURM_STEP_ID": "3", "SLURM_STEP_NUM_TASKS": "8"}  # where sbatch was called
    done = subprocess.run(
        [spool / "slurm_script", "--x"],
        env=slurm.environment(**in_a_step),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("srun --nodes=2 --ntasks=2 --ntasks-per-node=1 ")
    assert done.stdout.endswith(f" {slurm.repository}/train_ddp.sh --x --run_name slurm_12\n")


def test_a_job_that_was_not_submitted_from_the_repository_is_told_so(slurm):
    shutil.copy(slurm.repository / "train_ddp.sh", slurm.fake / "slurm_script")
    environment = slurm.environment(SLURM_SUBMIT_DIR="/")
    done = subprocess.run([slurm.fake / "slurm_script"], env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "snakes: / is not the folder of train_ddp.sh; sbatch it from there\n"


@pytest.mark.parametrize(
    ("words", "passed_on"),
    [
        ([], "--seed 5 --run_name slurm_11_5"),
        (["--seed=7"], "--seed=7 --run_name slurm_11_5"),
        (["--run-name", "mine"], "--run-name mine --seed 5"),
    ],
)
def test_a_task_of_an_array_has_its_own_seed_and_run_unless_they_are_given(slurm, words, passed_on):
    code, out, _ = slurm.start("train_ddp.sh", *words, SLURM_ARRAY_JOB_ID="11", SLURM_ARRAY_TASK_ID="5")
    assert code == 0
    assert out.endswith(f"/train_ddp.sh {passed_on}\n")


@pytest.mark.parametrize(
    ("number", "code", "queued_again"),
    [
        (signal.SIGUSR1, 143, True),
        (signal.SIGUSR1, 0, False),  # it was just about to end
        (signal.SIGUSR1, 2, False),  # a mistake would only come back
        (signal.SIGTERM, 143, False),
    ],
)
def test_a_signal_to_the_batch_script_ends_the_step_and_usr1_queues_the_job_again(slurm, number, code, queued_again):
    (slurm.fake / "hold").write_text(f"{code}\n")
    with os.fdopen(os.open(slurm.fake / "events", os.O_RDWR)) as events:
        process = slurm.begin("train_ddp.sh")
        assert events.readline() == "running\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=300)
    assert process.returncode == code
    assert slurm.calls() == ["scancel --signal=TERM 12", *["scontrol requeue 12"] * queued_again]
    assert ("snakes: job 12 is queued again\n" in err) == queued_again


def test_a_task_learns_from_slurm_which_node_it_is(slurm):
    python = slurm.repository / ".venv/bin/python"
    python.write_text('#!/usr/bin/env bash\necho "$NNODES $NODE_RANK $MASTER_ADDR $MASTER_PORT $*"\n')
    code, out, err = slurm.start("train_ddp.sh", **NODE_1, SLURM_STEP_NUM_NODES="2", SLURM_STEP_NUM_TASKS="2")
    assert (code, out, err) == (0, "2 1 localhost 20012 -m marl train --distributed\n", "")
    code, out, _ = slurm.start("train_ddp.sh", **NODE_1, SLURM_STEP_NUM_NODES="2", MASTER_ADDR="a", MASTER_PORT="5")
    assert (code, out) == (0, "2 1 a 5 -m marl train --distributed\n")
    node_0 = NODE_1 | {"SLURM_PROCID": "0", "SLURM_NODEID": "0"}
    _, _, err = slurm.start("train_ddp.sh", **node_0, SLURM_STEP_NUM_NODES="2", SLURM_STEP_NUM_TASKS="2")
    assert err == "snakes: SLURM job 12: 2 nodes (n[1-2]) meet at localhost:20012\n"
    code, out, err = slurm.start("train_ddp.sh", **node_0, SLURM_STEP_NUM_NODES="2", SLURM_STEP_NUM_TASKS="8")
    assert (code, out) == (2, "")
    assert err.startswith("snakes: 8 tasks on 2 nodes, but ")
    assert err.count("\n") == 1


def test_a_container_takes_the_place_of_the_environment(slurm):
    shutil.rmtree(slurm.repository / ".venv")
    step = NODE_1 | {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2"}
    container = {"CONTAINER": "env echo  run --nv snakes.sif"}
    code, out, err = slurm.start("train_ddp.sh", "--run_name", "a b", **step, **container)
    assert (code, out, err) == (0, "run --nv snakes.sif train --distributed --run_name a b\n", "")
    assert not (slurm.repository / ".venv").exists()


@pytest.mark.parametrize("waits_in", ["flock", "sleep"])
def test_two_starts_at_once_install_once(sandbox, waits_in):
    if waits_in == "sleep":  # a system without flock
        sandbox.only_tools("bash env dirname readlink sha256sum cat mkdir rm mv find cp chmod grep")
    real = shutil.which(waits_in)
    sandbox.put(waits_in, f'#!/usr/bin/env bash\necho {waits_in} >"$FAKE/events"\nexec {real} "$@"\n')
    os.mkfifo(sandbox.fake / "events")
    os.mkfifo(sandbox.fake / "go")
    starts = []
    (sandbox.fake / "hold").touch()
    # Opened for both ends, so that it neither waits for a writer nor ends with one.
    with os.fdopen(os.open(sandbox.fake / "events", os.O_RDWR)) as events:
        try:
            starts.append(sandbox.begin("scripts/venv.sh"))
            while events.readline() != "install\n":
                pass
            starts.append(sandbox.begin("scripts/venv.sh"))
            assert events.readline() == f"{waits_in}\n"  # the second start waits while the first one installs
            (sandbox.fake / "hold").unlink()
            (sandbox.fake / "go").write_text("\n")
            assert [start.wait(timeout=300) for start in starts] == [0, 0]
        finally:
            for start in starts:
                start.kill()
                start.communicate()
    assert len(sandbox.calls()) == 3


def test_no_line_of_the_program_needs_a_newer_python_than_the_oldest() -> None:
    pytest.importorskip("vermin", reason="vermin is not installed")
    oldest = re.search(r'requires-python = ">=(3\.\d+)', (ROOT / "pyproject.toml").read_text())[1]
    flags = [f"-t={oldest}-", "--violations", "--no-tips", "--eval-annotations", "--no-parse-comments", "--processes=1"]
    packages = [ROOT / name for name in ("arena", "opponents", "marl", "scripts")]
    call = [sys.executable, "-c", "import vermin; vermin.main()", *flags, *packages]
    done = subprocess.run(call, capture_output=True, text=True, timeout=300)
    assert "Analyzing" in done.stdout, done.stderr
    newer = [line for line in done.stdout.splitlines() if re.search(r"requires .*3\.1[1-9]", line)]
    assert not newer, done.stdout

"""train_ddp.sh under a real SLURM: two nodes, which are two daemons on this machine."""

import json
import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from helpers import slurm_cluster
from helpers.processes import processes_with, wait_until
from helpers.training import compile_training

from marl.storage import checkpoint_finder

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(bool(slurm_cluster.missing()), reason=slurm_cluster.missing())

TINY = (
    "--config", ROOT / "configs" / "smoke.yaml", "--device", "cpu", "--matches", "8", "--body", "16,16",
    "--batch_size", "48", "--turns", "20", "--updates", "1", "--log_interval", "4", "--save_interval", "8",
    "--eval_matches", "2",
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    with slurm_cluster.cluster() as made:
        yield made


class Repository:
    """The scripts as in a checkout, with the Python of this test as its environment; and jobs submitted from there."""

    def __init__(self, folder: Path, cluster: slurm_cluster.Cluster) -> None:
        self.folder, self.cluster = folder, cluster
        for name in ("train_ddp.sh", "pyproject.toml", "scripts/slurm.sh", "configs/slurm/train.sbatch"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        for name, text in ((".venv/bin/python", f'exec "{sys.executable}" "$@"'), ("scripts/venv.sh", "")):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)

    def submit(self, *words: str | Path, **environment: str) -> str:
        """sbatch with these words; returns the job's number."""
        variables = self.cluster.environment | {"PYTHONPATH": str(ROOT), "NPROC": "1"} | environment
        done = self.cluster.run("sbatch", "--parsable", *words, cwd=self.folder, env=variables)
        return done.stdout.strip()

    def printed(self, name: str) -> str:
        path = self.folder / f"slurm-{name}.out"
        return path.read_text() if path.exists() else ""

    def wait_for_line(self, job: str, pattern: str) -> None:
        def there() -> bool:
            state = self.cluster.job(job)["JobState"]
            assert state not in slurm_cluster.OVER, (state, self.printed(job))
            return re.search(pattern, self.printed(job), re.MULTILINE) is not None

        wait_until(there, 120, f"job {job} prints {pattern!r}", every=0.2)

    def finish(self, job: str, output: str | None = None) -> str:
        """Wait for the good end of a job and return what it has printed."""
        try:
            assert self.cluster.wait_for(job, "COMPLETED")["ExitCode"] == "0:0"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.printed(output or job)}") from error
        return self.printed(output or job)

    def run(self, name: str) -> Path:
        return self.folder / "runs" / "snakes_3v3" / name


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> None:
    compile_training(tmp_path_factory.mktemp("compiled"))


@pytest.fixture
def repository(tmp_path, cluster):
    return Repository(tmp_path, cluster)


def saved(run: Path) -> dict:
    """What the newest checkpoint says of itself, with its sums checked."""
    newest = checkpoint_finder.load_newest(run)
    newest.part("state")
    return json.loads((newest.path / "manifest.json").read_text())


@pytest.mark.parametrize(
    ("asked", "gpus", "cores"),
    [
        (("--nodes=2", "--gpus-per-node=4", "--exclusive"), 4, 8),
        (("--nodes=2", "--ntasks-per-node=3", "--gpus-per-task=1"), 3, 3),
        (("--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=6", "--gres=gpu:2"), 2, 6),
        (("--nodes=1", "--gpus=3", "--cpus-per-task=2"), 3, 2),
    ],
)
def test_the_one_task_of_a_node_has_all_that_the_job_has_there(repository, asked, gpus, cores) -> None:
    show = "\n".join(
        ["#!/bin/sh", 'echo "gpus $SLURM_GPUS_ON_NODE"', "scontrol -o show step $SLURM_JOB_ID.$SLURM_STEP_ID"]
    )
    (repository.folder / ".venv/bin/python").write_text(show)
    printed = repository.finish(repository.submit(*asked, "train_ddp.sh"))
    nodes = int(asked[0][-1])
    assert printed.count(f"gpus {gpus}\n") == nodes
    assert printed.count(f" CPUs={nodes * cores} Tasks={nodes} ") == nodes


@pytest.mark.usefixtures("compiled")
def test_arrays_through_the_template_train_a_run_per_seed(repository) -> None:
    # One node each, at the same time on both.
    array = repository.submit("--array=3,5", "--output=slurm-%A_%a.out", "configs/slurm/train.sbatch",
                              *TINY, "--max_episodes", "16")  # fmt: skip
    for seed in ("3", "5"):
        job = f"{array}_{seed}"
        assert "meet at" not in repository.finish(job)
        run = repository.run(f"slurm_{job}")
        assert f"seed: {seed}\n" in (run / "config.yaml").read_text()
        about = saved(run)
        assert (about["episode"], about["world_size"]) == (16, 1)


@pytest.mark.usefixtures("compiled")
def test_a_preempted_job_on_two_nodes_saves_is_queued_again_and_goes_on_from_there(repository, cluster) -> None:
    job = repository.submit("--nodes=2", "train_ddp.sh", *TINY, "--max_episodes", "480", "--save_interval", "1000")
    repository.wait_for_line(job, "^episode ")
    cluster.run("scancel", "--batch", "--signal=USR1", job)  # what SLURM does before the time is up
    assert cluster.wait_for(job, "PENDING")["Restarts"] == "1"
    printed = repository.printed(job)
    assert "snakes: USR1 came: the run saves and ends\n" in printed
    assert f"snakes: job {job} is queued again\n" in printed
    told = re.search(r"^stopped by a signal at episode (\d+);", printed, re.MULTILINE)
    assert told, printed
    stopped = int(told[1])
    run = repository.run(f"slurm_{job}")
    assert 0 < stopped < 480
    assert saved(run)["episode"] == stopped

    # SLURM would wait for two minutes; in the second of its end a node refuses the job ("credential revoked").
    cluster.run("scontrol", "update", f"jobid={job}", "StartTime=now+2")
    printed = repository.finish(job)
    port = 20000 + int(job) % 10000
    assert printed.count(f"snakes: SLURM job {job}: 2 nodes (n[1-2]) meet at 127.0.0.1:{port}\n") == 2
    assert len(re.findall("^ranks +2 over shared memory", printed, re.MULTILINE)) == 2
    assert re.search(rf"^resumed from +\S*/episode_{stopped} \(episode {stopped}\)", printed, re.MULTILINE)
    about = saved(run)
    assert (about["episode"], about["world_size"]) == (480, 2)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "time/global_fps" in line]
    for name in ("step", "train/env_steps", "train/updates"):  # one curve, nothing lost and nothing twice
        assert all(a[name] < b[name] for a, b in pairwise(lines)), name


@pytest.mark.usefixtures("compiled")
def test_a_cancelled_job_leaves_no_process_and_a_good_checkpoint(repository, cluster) -> None:
    job = repository.submit("train_ddp.sh", *TINY, "--max_episodes", "1000000", "--run_name", "mine", NPROC="2")
    repository.wait_for_line(job, r"^episode (9|1\d)/")  # so there is a checkpoint
    assert len(processes_with("SLURM_JOB_ID", job)) >= 4  # batch script, launcher, two ranks
    cluster.run("scancel", job)
    cluster.wait_for(job, "CANCELLED")
    wait_until(lambda: not processes_with("SLURM_JOB_ID", job), 60, f"no process of job {job} is left")
    about = saved(repository.run("mine"))
    assert not repository.run(f"slurm_{job}").exists()  # the name that was given counts
    assert about["episode"] >= 8
    assert about["world_size"] == 2

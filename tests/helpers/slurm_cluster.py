"""A real SLURM cluster of two nodes on this machine: one controller and two node daemons, all on loopback.

Everything lies in one folder of its own, with its own munge key and socket: a SLURM or munge that this machine runs
itself is neither used nor disturbed.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from helpers.ports import free_ports
from helpers.processes import wait_until

DAEMONS = ("munged", "slurmctld", "slurmd")
CLIENTS = ("sbatch", "srun", "scancel", "scontrol", "squeue", "sinfo")
NODES = ("n1", "n2")
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL")

CONF = """
ClusterName=snakes
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 Gres=gpu:4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8 Gres=gpu:4
GresTypes=gpu
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
KillWait=5
FirstJobId={first_job}
"""


def missing() -> str:
    """Why there can be no cluster here; empty when there can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "a SLURM cluster for tests needs root"
    absent = [name for name in (*DAEMONS, *CLIENTS) if shutil.which(name, path=_path()) is None]
    return f"SLURM is not installed ({', '.join(absent)}): apt-get install slurm-wlm munge" if absent else ""


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"


@contextlib.contextmanager
def cluster() -> Iterator["Cluster"]:
    # Not pytest's folder: munge wants one that other users could look into, and a short name for its socket.
    folder = Path(tempfile.mkdtemp(prefix="snakes-slurm-"))
    folder.chmod(0o755)
    made = Cluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Cluster:
    """Start and stop it, and talk to it as a user does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        strange = re.compile("SLURM|SBATCH_|SALLOC_|RANK$|WORLD_SIZE$|MASTER_|NPROC$|NNODES$|NODE_RANK$|CONFIG$")
        clean = {name: value for name, value in os.environ.items() if not strange.search(name)}
        self.environment = clean | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
        self.environment["GLOO_SOCKET_IFNAME"] = "lo"  # both nodes are on this machine

    def start(self) -> None:
        host = socket.gethostname().partition(".")[0]
        # Job ids choose the ports of trainings: start them anywhere, so that two clusters at once do not meet.
        conf = CONF.format(
            folder=self.folder, host=host, ports=free_ports(3), first_job=random.SystemRandom().randrange(1000, 60000)
        )
        (self.folder / "slurm.conf").write_text(conf)
        # Any devices will do: SLURM only shares them out.
        gpus = "".join(f"Name=gpu File=/dev/{device}\n" for device in ("null", "zero", "full", "random"))
        (self.folder / "gres.conf").write_text(gpus)
        (self.folder / "state").mkdir()
        for node in NODES:
            (self.folder / f"spool-{node}").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o600)
        names = {"socket": "munge.socket", "key-file": key.name}
        names |= {f"{kind}-file": f"munged.{kind}" for kind in ("pid", "log", "seed")}
        self._daemon("munged", *(f"--{option}={self.folder / name}" for option, name in names.items()))
        self._daemon("slurmctld")
        for node in NODES:
            self._daemon("slurmd", "-N", node)
        wait_until(
            lambda: self.run("sinfo", "-h", "-N", "-o", "%T", check=False).stdout.split() == ["idle"] * len(NODES),
            30, f"the nodes are idle: {self._logs()}",
        )  # fmt: skip

    def _daemon(self, *command: str) -> None:
        # Output to nowhere: the daemon keeps what it inherits, and a pipe would never end.
        done = subprocess.run(command, env=self.environment, timeout=30, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        assert done.returncode == 0, f"{' '.join(command)}: {self._logs()}"

    def _logs(self) -> str:
        return "".join(f"\n--- {path.name}\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))

    def stop(self) -> None:
        """Cancel all jobs, wait for their ends, then end the daemons by their pid files."""
        with contextlib.suppress(TimeoutError, subprocess.TimeoutExpired):
            jobs = self.run("squeue", "-h", "-o", "%A", check=False).stdout.split()
            if jobs:
                self.run("scancel", *jobs, check=False)
                wait_until(lambda: not self.run("squeue", "-h", "-o", "%A", check=False).stdout, 30, "no job is left")
        for name in (*(f"slurmd-{node}" for node in NODES), "slurmctld", "munged"):
            with contextlib.suppress(OSError, ValueError):
                pid = int((self.folder / f"{name}.pid").read_text())
                os.kill(pid, signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    wait_until(lambda pid=pid: not _alive(pid), 10, f"{name} has ended")
                    continue
                os.kill(pid, signal.SIGKILL)

    def run(self, *command: str | Path, check: bool = True, **options) -> subprocess.CompletedProcess[str]:
        options = {"env": self.environment, "capture_output": True, "text": True, "timeout": 30, **options}
        done = subprocess.run([str(word) for word in command], **options)
        assert done.returncode == 0 or not check, (done, self._logs())
        return done

    def job(self, number: str) -> dict[str, str]:
        """What the controller says of a job: JobState, Restarts, ExitCode ..."""
        shown = self.run("scontrol", "-o", "show", "job", number).stdout
        return dict(re.findall(r"(\w+)=(\S*)", shown))

    def wait_for(self, number: str, *states: str, seconds: float = 120) -> dict[str, str]:
        """Wait until the job is in one of the states; another end than that is a failure at once."""
        seen: dict[str, str] = {}

        def there() -> bool:
            seen.update(self.job(number))
            assert seen["JobState"] in states or seen["JobState"] not in OVER, (seen, self._logs())
            return seen["JobState"] in states

        try:
            wait_until(there, seconds, f"job {number} is {' or '.join(states)}", every=0.2)
        except TimeoutError as error:
            raise AssertionError(f"{error}, but {seen['JobState']} ({seen['Reason']})") from None
        return seen


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):  # one that has ended and that nobody waits for: containers have no real init
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False

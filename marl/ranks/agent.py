"""torch's elastic agent, which starts ranks again when one has failed; but not after a mistake, which stays one."""

from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup
from torch.distributed.launcher import api

from marl.ranks.distributed import EXIT_TOGETHER

EXIT_MISTAKE = 2
FINAL = (EXIT_MISTAKE, EXIT_TOGETHER)  # exit codes of ranks that would only run into the same again


class Agent(api.LocalElasticAgent):
    """One per node."""

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result = super()._monitor_workers(worker_group)
        if any(failure.exitcode in FINAL for failure in result.failures.values()):
            self._remaining_restarts = 0
        return result


def register() -> None:
    """For all launches of this process: torch's launcher cannot be given one."""
    api.LocalElasticAgent = Agent

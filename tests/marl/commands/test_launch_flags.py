"""How `train` starts ranks: which of them are forked from the command's own process."""

import pytest

from arena import system
from marl.commands.launch_flags import _can_fork
from marl.ranks.nodes import ONE_NODE, Nodes
from marl.training.resume_plan import plan_resume


@pytest.mark.parametrize(
    ("words", "nodes", "gpus", "system_forks", "forks"),
    [
        ([], ONE_NODE, 0, True, True),
        (["--device", "cpu"], ONE_NODE, 2, True, True),
        ([], ONE_NODE, 2, True, False),  # CUDA does not survive a fork
        ([], ONE_NODE, 0, False, False),
        ([], Nodes((2, 2), 0, "n0"), 0, True, False),
        ([], Nodes((1, 4)), 0, True, False),
        ([], Nodes(master_port=29_500), 0, True, False),  # the ranks shall meet there
    ],
)
def test_cpu_ranks_of_one_machine_are_forked(words, nodes, gpus, system_forks, forks, monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setattr(system, "FORKS_WHEN_LOADED", system_forks)
    assert _can_fork(plan_resume(words), nodes) is forks

"""What the two ranks of test_ddpg_ranks.py do: updates from given rows, and what a rank found goes to FOLDER/RANK.pt.

The same updates run alone, too, from the rows of both ranks.
"""

from pathlib import Path

import torch

from helpers.collecting import a_rollout, started
from marl.compute.precision import Precision
from marl.config.learner_configs import DdpgConfig
from marl.config.network_config import NetworkConfig
from marl.learners.ddpg import Ddpg
from marl.learners.replay_buffer import Batch
from marl.ranks.process_group import Ranks, Solo
from marl.ranks.startup import start

CPU = torch.device("cpu")
SEED, MATCHES, TURNS, ROWS = 5, 8, 40, 48  # rows: of a batch of all ranks together
UPDATES = 2
# By the compiled passes, and by autograd under DistributedDataParallel.
CASES = {"fused": {}, "autograd": {"fused": False}, "joined": {"critic_form": "joined", "twin": True}}


def updates(
    group: Solo | Ranks, critic_form: str = "heads", twin: bool = False, fused: bool = True
) -> dict[str, torch.Tensor]:
    """Weights after some updates, and Adam's mean of the gradients after the first one."""
    rollout = started(a_rollout(MATCHES, TURNS, seed=SEED))  # the same turns on all ranks
    for _ in range(TURNS):
        rollout.play_turn(lambda obs: torch.zeros(len(obs), 4))
    config = DdpgConfig(
        batch_size=3 * ROWS // group.world, a_lr=1e-3, c_lr=1e-3, entropy=0.02, max_grad_norm=0.5,
        critic_form=critic_form, twin=twin, uniform_kl=0.0,
    )  # fmt: skip
    network = NetworkConfig(encoder="features", body=(32, 32))
    learner = Ddpg(config, network, rollout.buffer, group, Precision("fp32", CPU), 1, SEED, fused=fused)
    found = {}
    for number in range(UPDATES):
        learner._learn(rows_of(rollout.buffer.sampler(ROWS, 2, 0.9).draw(), learner, group), step=True)
        learner._finish_step()
        if number == 0:
            for name, optimizer in (("actor", learner.actor_optimizer), ("critic", learner.critic_optimizer)):
                means = [state["exp_avg"].flatten() for state in optimizer.state.values()]
                found[f"gradients of {name}"] = torch.cat(means) / 0.1
    return found | {name: tensor.clone() for name, tensor in learner.named_weights()}


def rows_of(whole: Batch, learner: Ddpg, group: Solo | Ranks) -> Batch:
    """This rank's part of the rows, equally many for each."""
    rows = ROWS // group.world
    mine = slice(rows * group.rank, rows * (group.rank + 1))
    batch = learner.sampler.batch
    for into, drawn in zip(
        (*batch.rows, batch.obs, batch.next_obs), (*whole.rows, whole.obs, whole.next_obs), strict=True
    ):
        into.copy_(drawn[mine])
    return batch


def all_cases(folder: str, backend: str) -> int:
    """Of one rank. backend: empty for sums through shared memory."""
    torch.set_num_threads(1)
    group = start(backend or None, timeout=60, device="cpu")
    torch.save({name: updates(group, **case) for name, case in CASES.items()}, Path(folder) / f"{group.rank}.pt")
    group.close()
    return 0

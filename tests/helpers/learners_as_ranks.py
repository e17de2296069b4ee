"""What the two ranks of test_gradients_of_ranks.py do: updates of every learner; what a rank found goes to
FOLDER/RANK.pt. The same updates run alone, too, from the rows of both ranks.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from helpers.collecting import CPU, a_rollout, started
from helpers.ppo_rounds import a_ppo, begin, play
from marl.config.sections import NetworkConfig
from marl.config.train_config import TrainConfig, read_config
from marl.fast.seam import speed_up
from marl.learners.learner import Learner
from marl.learners.precision import Precision
from marl.learners.replay_buffer import BatchRows
from marl.learners.replay_learner import ReplayLearner
from marl.learners.target_noise import TargetNoise
from marl.ranks.process_group import Ranks, Solo
from marl.ranks.startup import start
from marl.registry import LEARNERS, load

SEED, MATCHES, TURNS, ROWS = 5, 8, 40, 64  # matches and rows of a batch: of all ranks together
UPDATES = 2  # MATD3 moves its actor in the second
NETWORK = NetworkConfig(encoder="features", body=(32, 32), lstm_size=16)
Found = dict[str, torch.Tensor]


def replayed(group: Solo | Ranks, algo: str, sync_freq: int = 1, compiled: bool = False) -> Found:
    """A learner with a replay buffer, the same on all ranks: each learns from its part of the rows."""
    rollout = started(a_rollout(MATCHES, TURNS, seed=SEED))
    for _ in range(TURNS):
        rollout.play_turn(lambda obs: torch.zeros(len(obs), 4))
    share = group.world * sync_freq  # parts of the rows that the learner gets one after the other
    words = ["--algo", algo, "--batch_size", str(3 * ROWS // share), "--max_grad_norm", "0.5"]
    config = read_config(
        [*words, *(["--q_lr", "1e-3"] if algo in ("vdn", "qmix") else ["--a_lr", "1e-3", "--c_lr", "1e-3"])]
    )
    section, cls = getattr(config, config.learner_section), load(LEARNERS, algo)
    learner: ReplayLearner = cls(section, NETWORK, rollout.buffer, group, Precision("fp32", CPU), sync_freq, SEED)
    spread(learner)
    if compiled:
        speed_up(learner, TrainConfig(algo=algo, precision="fp32", network=NETWORK, ddpg=section), group, never)
    sampler = rollout.buffer.sampler(ROWS, section.n_step, section.gamma)
    found: Found = {}
    for number in range(UPDATES):
        whole = sampler.draw()
        for part in range(sync_freq):
            rows = ROWS // share
            mine = slice(rows * (group.rank + part * group.world), rows * (group.rank + part * group.world + 1))
            with pytest.MonkeyPatch.context() as patch:
                if getattr(learner, "_target_noise", None) is not None:
                    patch.setattr(learner._target_noise, "draw", partial(draw_noise, learner, mine))
                learner.update(rows_of(whole, learner, mine))
        found |= gradients_of(learner, number)
    return found | {name: tensor.clone() for name, tensor in learner.named_weights()}


def rows_of(whole: BatchRows, learner: ReplayLearner, mine: slice) -> BatchRows:
    """A part of the rows, in the tensors of the learner's own batch: compiled passes read those."""
    for into, drawn in zip(learner.sampler.batch, whole, strict=True):
        into.copy_(drawn[mine])
    return learner.sampler.batch


def draw_noise(learner: ReplayLearner, mine: slice) -> None:
    """The noise of a part of the rows."""
    config = learner.config
    whole = TargetNoise(learner.buffer, ROWS, config.target_noise, config.target_noise_clip).draw()
    learner._target_noise.noise.copy_(whole[mine])


def rolled_out(group: Solo | Ranks, compiled: bool = False, **options) -> Found:
    """PPO of one kind: each rank plays its part of the matches, and one minibatch is all that was played."""
    body = {"body": NETWORK.body, "lr": 1e-3, "epochs": UPDATES, "max_grad_norm": 0.5}
    learner, rollout = a_ppo(MATCHES // group.world, 12, seed=SEED, group=group, spread=0.1, **body, **options)
    if compiled:
        config = TrainConfig(algo="ppo", precision="fp32", network=NETWORK, ppo=learner.config)
        speed_up(learner, config, group, never)
    begin(rollout)
    play(learner, rollout)
    found: Found = {}
    update = learner.update

    def watched(items: torch.Tensor) -> None:
        update(items)
        found.update(gradients_of(learner, sum(name.endswith("actor") for name in found)))

    learner.update = watched
    learner.learn()
    return found | {name: tensor.clone() for name, tensor in learner.named_weights()}


def spread(learner: Learner) -> None:
    """Noise on all weights: targets differ from the online networks, and outputs from each other."""
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for net in learner.networks().values():
            for parameter in net.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))


def gradients_of(learner: Learner, number: int) -> Found:
    """Of the step that was just made, before clipping."""
    return {f"{number}. gradients of {name}": each.gradients.clone() for name, each in learner.optimizers().items()}


def never(text: str) -> None:
    raise AssertionError(text)


CASES: dict[str, Callable[[Solo | Ranks], Found]] = {
    "ppo": rolled_out,
    "ppo_lstm": partial(rolled_out, recurrent=True),
    "mappo": partial(rolled_out, critic="team"),
    **{algo: partial(replayed, algo=algo) for algo in ("ddpg", "maddpg", "matd3", "vdn", "qmix")},
    # By the compiled passes; and of two batches added up.
    "ppo, compiled": partial(rolled_out, compiled=True),
    "ppo, muon": partial(rolled_out, optimizer="muon"),
    "ddpg, compiled": partial(replayed, algo="ddpg", compiled=True),
    "ddpg, sync_freq 2": partial(replayed, algo="ddpg", sync_freq=2),
    "qmix, sync_freq 2": partial(replayed, algo="qmix", sync_freq=2),
}


def all_cases(folder: str, backend: str) -> int:
    """Of one rank. backend: empty for sums through shared memory."""
    torch.set_num_threads(1)
    group = start(backend or None, timeout=60, device="cpu")
    torch.save({name: case(group) for name, case in CASES.items()}, Path(folder) / f"{group.rank}.pt")
    group.close()
    return 0

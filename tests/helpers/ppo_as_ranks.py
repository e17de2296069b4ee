"""What the two ranks of test_ppo_ranks.py do: all of CASES, and what a rank found goes to FOLDER/RANK.pt.

The same cases run alone, too, with the matches of both ranks.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.ppo_rounds import a_ppo, batches_of, begin, means, play, weights_of
from marl.learners.ppo import KL, Ppo
from marl.ranks.process_group import Ranks, Solo
from marl.ranks.startup import start
from marl.rollout.rollout import Rollout

SEED, MATCHES, TURNS = 11, 8, 12  # matches of all ranks together


def made(group: Solo | Ranks, **options) -> tuple[Ppo, Rollout]:
    """A learner that has just played."""
    learner, rollout = a_ppo(MATCHES // group.world, TURNS, seed=SEED, group=group, spread=0.2, **options)
    begin(rollout)
    play(learner, rollout)
    return learner, rollout


def steps_of(learner: Ppo) -> list[torch.Tensor]:
    """A list that fills with all weights, in one row, after every step."""
    seen: list[torch.Tensor] = []
    step = learner.optimizer.step

    def step_and_look(*arguments: Any) -> torch.Tensor:
        norm = step(*arguments)
        seen.append(learner.optimizer.weights.clone())
        return norm

    learner.optimizer.step = step_and_look
    return seen


def found(learner: Ppo, **more: Any) -> dict[str, Any]:
    names = ("obs", "actions", "rewards", "terminated", "advantages", "returns", "log_probs")
    tensors = {name: getattr(learner.buffer, name).clone() for name in names}
    return {**tensors, "weights": weights_of(learner), "logged": learner.pop_stats().clone(), **more}


def union(group: Solo | Ranks, recurrent: bool) -> dict[str, Any]:
    """One step from one batch, of which each rank has its part."""
    learner, _ = made(group, recurrent=recurrent)
    learner.learn()
    return found(learner, gradients=learner.optimizer.gradients.clone())


def rewards(group: Solo | Ranks) -> dict[str, Any]:
    """The second half of the matches is paid far better."""
    learner, _ = made(group)
    paid = learner.buffer.rewards
    rich = paid[:, MATCHES // 2 :] if group.world == 1 else paid if group.rank else paid[:, :0]
    rich.mul_(30).add_(7)
    learner.learn()
    return found(learner)


def rounds(group: Solo | Ranks, recurrent: bool, sync_freq: int) -> dict[str, Any]:
    """Several rounds of several batches, each rank's in its own order."""
    learner, rollout = made(group, recurrent=recurrent, sync_freq=sync_freq, batch_size=72, epochs=2)
    with pytest.MonkeyPatch.context() as patch:
        weights, batches = steps_of(learner), batches_of(learner, patch)
        for _ in range(2):
            learner.learn()
            play(learner, rollout)
    return {"weights": torch.stack(weights), "idx": [batch["idx"] for batch in batches]}


def kl(group: Solo | Ranks, more: float, target: float) -> dict[str, Any]:
    """From its third minibatch on, rank 1 alone reports a KL that is larger by `more`."""
    learner, _ = made(group, batch_size=36, epochs=2, target_kl=target)
    with pytest.MonkeyPatch.context() as patch:
        weights, batches = steps_of(learner), batches_of(learner, patch)
        if group.rank == 1:
            mean = group.mean_
            patch.setattr(group, "mean_", lambda tensor: mean(tensor + more if len(batches) >= 3 else tensor))
        learner.learn()
    return {"weights": torch.stack(weights), "batches": len(batches), "kl": [stats[KL] for stats in means(batches)]}


def spoilt(group: Solo | Ranks) -> dict[str, Any]:
    """A NaN in one turn of rank 1."""
    learner, rollout = made(group, batch_size=36)
    weights = steps_of(learner)
    estimate = learner._estimate_advantages

    def spoil() -> None:
        estimate()
        learner.buffer.returns[0, 0, 0] = float("nan") if group.rank == 1 else 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner, "_estimate_advantages", spoil)
        learner.learn()
    first = learner.pop_stats()
    play(learner, rollout)
    learner.learn()
    return {"weights": torch.stack(weights), "logged": [first, learner.pop_stats()]}


CASES: dict[str, Callable[[Solo | Ranks], dict[str, Any]]] = {
    "union": lambda group: union(group, False),
    "union_lstm": lambda group: union(group, True),
    "rewards": rewards,
    "rounds": lambda group: rounds(group, False, 1),
    "rounds_lstm": lambda group: rounds(group, True, 1),
    "rounds_sync2": lambda group: rounds(group, False, 2),
    "kl_over": lambda group: kl(group, 10.0, 1.0),
    "kl_mean_below": lambda group: kl(group, 1.0, 0.8),
    "spoilt": spoilt,
}


def all_cases(folder: str) -> int:
    """Of one rank."""
    return _run(folder, "cpu", CASES)


def union_on_gpu(folder: str) -> int:
    """Of one rank, which shares the GPU with the other."""
    return _run(folder, "cuda", {"union": CASES["union"]})


def _run(folder: str, device: str, cases: dict[str, Callable[[Solo | Ranks], dict[str, Any]]]) -> int:
    torch.set_num_threads(1)
    group = start("gloo", timeout=60, device=device)
    torch.save({name: case(group) for name, case in cases.items()}, Path(folder) / f"{group.rank}.pt")
    group.close()
    return 0

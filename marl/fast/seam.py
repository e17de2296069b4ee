"""The seam between the text of a learner and its speed.

`speed_up` is asked once for a learner. On a CPU it looks for passes without autograd (ppo_passes.py, ddpg_passes.py).
They prove themselves at every start: outputs, gradients and statistics of a real minibatch are compared with those of
the text, once with the present weights and once with others, since a policy that has just played its own rollout shows
neither clipping nor entropy. If they differ by more than rounding, the text runs, and a line says so. So every edit of
the text counts, every subclass and every network. On a GPU the text itself is compiled.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import torch

from marl.compute.overlap import Overlap
from marl.compute.threads import use_threads
from marl.config.train_config import TrainConfig
from marl.fast.compiled_text import compile_text
from marl.fast.ddpg_passes import DdpgPasses
from marl.fast.dense_pass import (
    ROUNDING,
    TRIAL_SEED,
    DenseInference,
    DenseLayers,
    dense_layers,
    same_outputs,
    trial_rows,
)
from marl.fast.ppo_passes import PpoPasses
from marl.learners.ddpg import Ddpg
from marl.learners.learner import Learner
from marl.learners.ppo import Ppo
from marl.ranks.process_group import Ranks, Solo

Notify = Callable[[str], None]
NOTHING = 1e-6  # by the largest norm of a row: of rows that are zero but for rounding


class CpuPasses:
    """Passes that stand in for a learner's `act` and `gradients` once they have shown that they compute the same."""

    def __init__(
        self, learner: Learner, passes: PpoPasses | DdpgPasses, layers: DenseLayers, overlap: Overlap, notify: Notify
    ) -> None:
        """layers: of the actor. notify: is told why the text runs instead."""
        self._learner, self._passes, self._infer, self.overlap = learner, passes, DenseInference(layers), overlap
        self._notify = notify
        self._text_act, self._text_gradients = learner.act, learner.gradients
        self.plays = same_outputs(self._text_act(rows := trial_rows(learner.encoder)), self.act(rows))
        if self.plays:
            learner.act = self.act  # type: ignore[method-assign]
        learner.gradients = self._first_gradients  # type: ignore[method-assign]

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        """The learner's outputs for observations."""
        return self.overlap.split_batch(self._infer, obs)

    def bind_policy(self, obs: torch.Tensor, outputs: torch.Tensor) -> tuple[partial, ...]:
        """Compiled calls that write the outputs for obs [N, W] into `outputs`; none if there are no such."""
        return self._infer.bind(obs, outputs) if self.plays else ()

    def _first_gradients(self, batch: Any) -> torch.Tensor:
        learner = self._learner
        learner.gradients = self._text_gradients  # type: ignore[method-assign]
        differs = learner.group.any(self._differ(batch))
        if differs or not self.plays:
            what = "gradients" if differs else "outputs"
            self._notify(f"{what} of the compiled passes differ from those of the text: the text runs, more slowly")
        else:
            learner.gradients = self._gradients  # type: ignore[method-assign]
        return learner.gradients(batch)

    def _gradients(self, batch: Any) -> torch.Tensor:
        stats = self._passes.gradients(batch)
        for optimizer in self._learner.optimizers().values():
            self._learner.group.average_gradients(optimizer.gradients)
        return stats

    # --- the proof

    def _differ(self, batch: Any) -> bool:
        return self._differ_now(batch) or self._differ_with_other_weights(batch)

    def _differ_now(self, batch: Any) -> bool:
        """Whether gradients or statistics of a batch differ, with the present weights."""
        learner = self._learner
        optimizers = list(learner.optimizers().values())
        with learner.group.alone(*learner.wrapped()):
            stats = self._text_gradients(batch)
        gradients = [optimizer.gradients.clone() for optimizer in optimizers]
        same = same_outputs(stats, self._passes.gradients(batch))
        for optimizer, expected in zip(optimizers, gradients, strict=True):
            same &= _same_rows(optimizer.parameters, expected, optimizer.gradients)
        return not same

    def _differ_with_other_weights(self, batch: Any) -> bool:
        optimizers = list(self._learner.optimizers().values())
        kept = [optimizer.weights.clone() for optimizer in optimizers]
        draw = torch.Generator().manual_seed(TRIAL_SEED)
        for optimizer in optimizers:
            for parameter in optimizer.parameters:
                noise = torch.randn(parameter.shape, generator=draw)
                parameter.data.add_(noise / parameter.shape[-1] ** 0.5)
        try:
            return self._differ_now(batch)
        finally:
            for optimizer, weights in zip(optimizers, kept, strict=True):
                optimizer.weights.copy_(weights)


def speed_up(learner: Learner, config: TrainConfig, group: Solo | Ranks, notify: Notify) -> CpuPasses | None:
    """Let the learner compute faster what its text says. Returns the passes, if there are any for a CPU.

    notify: is told in a line why something runs more slowly than it could.
    """
    if config.compile == "off":
        return None
    if group.device.type == "cuda":
        compile_text(learner, config, notify)
        return None
    overlap = Overlap(group.overlaps)
    found = find_passes(learner, config, overlap)
    if found is None:
        if overlap.splits:  # the text knows no halves
            use_threads(numba.get_num_threads())
        return None
    return CpuPasses(learner, *found, overlap, notify)


def find_passes(
    learner: Learner, config: TrainConfig, overlap: Overlap
) -> tuple[PpoPasses | DdpgPasses, DenseLayers] | None:
    """Passes for the learner's networks, and the layers of its actor; None if there are none for such networks."""
    if not may_pass(config) or numba.config.DISABLE_JIT:  # plain Python is for debuggers
        return None
    if isinstance(learner, Ppo):
        layers = dense_layers(learner.network)
        return None if layers is None else (PpoPasses(learner, layers, overlap), layers)
    if isinstance(learner, Ddpg):
        critics: list[Any] = [learner.critics, learner.target_critics]
        networks = (learner.actor, critics[0].each[0], learner.target_actor, critics[1].each[0])
        found = [dense_layers(network) for network in networks]
        layered = [layers for layers in found if layers is not None]
        return (DdpgPasses(learner, layered, overlap), layered[0]) if len(layered) == len(found) else None
    return None


def may_pass(config: TrainConfig) -> bool:
    """Whether there are passes without autograd for a configuration on a CPU. They run as two halves at once."""
    if config.compile == "off" or config.precision != "fp32" or config.ddp.sync_freq > 1:
        return False
    if config.network.kind != "mlp" or config.network.messages:
        return False
    if config.learner_section == "ppo":
        return config.ppo.critic == "snake" and config.algo != "ppo_lstm"
    ddpg = config.ddpg
    if config.learner_section != "ddpg" or ddpg.twin or ddpg.policy_delay > 1 or ddpg.target_noise:
        return False
    return ddpg.critic == "snake" and ddpg.critic_form == "heads"


def _same_rows(parameters: list[Any], text: torch.Tensor, passes: torch.Tensor) -> bool:
    """Whether gradients are equal but for rounding, row by row: of a head, one row for each output."""
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, expected, found in zip(parameters, text.split(sizes), passes.split(sizes), strict=True):
        expected, found = (each.view(len(parameter), -1) for each in (expected, found))
        norms, apart = expected.norm(dim=1), (expected - found).norm(dim=1)
        if not (apart <= ROUNDING * norms + NOTHING * norms.max()).all():
            return False
    return True

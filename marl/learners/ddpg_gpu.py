"""DDPG's updates with dense networks on a GPU: passes without autograd (networks/stacked_pass.py).

By autograd an update starts 240 kernels, most of them shorter than the gap before the next one. Here actor and critic
are one pass, and so are their targets. The losses are those of ddpg.py, their gradients those of ddpg_kernels.py.
"""

from collections.abc import Sequence

import torch

from marl.compute.adam import Adam
from marl.compute.overlap import Overlap
from marl.compute.precision import DTYPES, Precision
from marl.compute.triton_kernels import triton_problem
from marl.config.learner_configs import DdpgConfig
from marl.learners.ddpg_kernels import STATS, GpuBatch, ddpg_gradients
from marl.learners.replay_buffer import BatchRows, ReplayBuffer
from marl.networks.dense_pass import DenseLayers
from marl.networks.stacked_pass import StackedInference, StackedPass, WideRows
from marl.networks.stacked_step import StackedStep
from marl.networks.tail_tiles import fits_tail_kernels
from marl.rollout.turn_kernels import NONE


def may_learn_on_gpu(precision: Precision, layers: Sequence[DenseLayers | None]) -> bool:
    """Whether these passes can compute networks: in bf16, and all of one shape with two hidden layers."""
    if precision.device.type != "cuda" or precision.name != "bf16":
        return False
    return may_pass_stacked(layers) and not triton_problem(precision.device)


def may_pass_stacked(layers: Sequence[DenseLayers | None]) -> bool:
    """Whether the kernels can compute networks at once."""
    shapes = [[weight.shape for weight in each.weights] for each in layers if fits_tail_kernels(each)]
    return len(shapes) == len(layers) and all(each == shapes[0] for each in shapes)


class GpuPasses:
    """Passes of actor and critic, and of their targets, over the batch that was drawn last; always the same tensors."""

    def __init__(
        self,
        config: DdpgConfig,
        buffer: ReplayBuffer,
        drawn: BatchRows,
        layers: Sequence[DenseLayers],
        weights: Sequence[torch.Tensor],
        gradients: torch.Tensor,
        optimizers: Sequence[Adam],
        masks_reversal: bool,
        precision: Precision,
    ) -> None:
        """layers: of actor, critic, target actor, target critic. weights: of both networks, of both targets, flat;
        gradients: of both networks, flat."""
        device, rows = buffer.device, drawn.returns.numel()
        self._dtype = DTYPES.get(precision.name, torch.float32)
        self._layers, self._packing = layers, buffer.packing
        self._weights, targets = (flat.view(2, -1) for flat in weights)
        # Of the present batch, and of the next one.
        self._wide, self._next_wide = (
            WideRows(buffer.encoder.width, buffer.packing, 2, rows, self._dtype, device) for _ in range(2)
        )
        self._online = StackedPass(layers[0], self._weights, self._wide.x[0])
        self._targets = StackedPass(layers[2], targets, self._wide.x[1])
        self._gradients = gradients.view(2, -1)
        self._step = StackedStep(optimizers, self._online, self._targets, self._gradients)
        self._drawn, self._rows = drawn, buffer.obs.view(-1, buffer.row_encoder.width)
        self._batch = GpuBatch(
            drawn,
            buffer.obs.flatten(0, 1),
            self._online.outputs,
            self._targets.outputs,
            torch.zeros_like(self._online.outputs),
            torch.zeros(STATS, rows, device=device),
        )
        direction_at = buffer.row_encoder.direction_at if masks_reversal else NONE
        coefs = config.entropy, config.uniform_kl or 0.0
        self._bound_gradients = ddpg_gradients.bind(rows, device, self._batch, direction_at, *coefs)

    def inference(self) -> StackedInference:
        """The actor for the turns that are played."""
        return StackedInference(self._layers[0], self._weights[:1], self._packing, self._dtype)

    def take_weights(self) -> None:
        """Copy the present weights into the number format of the products; `step` does so, too."""
        self._online.take_weights()
        self._targets.take_weights()

    def read_batch(self) -> None:
        """Turn the rows of the present batch into numbers."""
        self._wide.read(self._rows, self._drawn.idx, self._drawn.next_idx)

    def read_next_batch(self) -> None:
        """The same for a batch that was drawn while the gradients of the present one are computed."""
        self._next_wide.read(self._rows, self._drawn.idx, self._drawn.next_idx)

    def take_next_batch(self) -> None:
        """Let that batch be the present one."""
        self._wide, self._next_wide = self._next_wide, self._wide
        self._online.x, self._targets.x = self._wide.x

    def compute_targets(self) -> None:
        """Outputs of both targets n turns later."""
        self._targets.forward()

    def compute_outputs(self) -> None:
        """Outputs of actor and critic."""
        self._online.forward()

    def compute_gradients(self) -> None:
        """Gradients of both losses by the outputs, and the statistics. After it the batch is read no more."""
        self._bound_gradients()

    def backward(self, overlap: Overlap) -> None:
        """Write the gradients of both losses by all parameters."""
        online = self._online
        online.backward_outputs(self._batch.gradients)
        second = overlap.run(online.backward_second)
        online.backward_first()
        second()
        online.collect_gradients(self._gradients)

    def step(self, max_norm: float, tau: float) -> torch.Tensor:
        """Step both networks and move their targets; returns the norms of their gradients, and the sum of the norms."""
        self._step(max_norm, tau)
        return self._step.norms

    def stats(self) -> torch.Tensor:
        """The means of the batch's statistics."""
        return self._batch.stats.mean(1)

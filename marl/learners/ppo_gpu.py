"""PPO's minibatches with a dense network on a GPU: passes without autograd (networks/stacked_pass.py).

By autograd an update starts 110 kernels, most of them shorter than the gap before the next one; here it starts 13.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from arena.rules import TEAM
from marl.compute.adam import flatten
from marl.compute.overlap import Overlap
from marl.compute.precision import DTYPES, Precision
from marl.compute.triton_kernels import triton_problem
from marl.learners.ppo_kernels import STATS, Coefs, Minibatch, loss_gradients
from marl.learners.rollout_buffer import RolloutBuffer
from marl.networks.dense_pass import DenseLayers, Gradients, dense_layers
from marl.networks.stacked_pass import StackedInference, StackedPass, WideRows
from marl.networks.tail_tiles import fits_tail_kernels


def may_learn_on_gpu(precision: Precision, network: nn.Module) -> bool:
    """Whether these passes can compute a network. If not, modules and autograd do."""
    if precision.device.type != "cuda" or precision.name != "bf16":
        return False
    return fits_tail_kernels(dense_layers(network)) and not triton_problem(precision.device)


class _Slot:
    """Tensors of a minibatch, its passes, and the gradient of its loss."""

    def __init__(
        self,
        buffer: RolloutBuffer,
        layers: DenseLayers,
        weights: torch.Tensor,
        coefs: Coefs,
        rows: int,
        dtype: torch.dtype,
    ) -> None:
        device = buffer.device
        self._wide = WideRows(buffer.encoder.width, buffer.packing, 1, rows * TEAM, dtype, device)
        self.passes = StackedPass(layers, weights[None], self._wide.x[0])
        outputs = self.passes.outputs.view(rows, TEAM, -1)
        self.batch = Minibatch(
            torch.zeros(rows, dtype=torch.int64, device=device),
            outputs,
            torch.zeros_like(outputs),
            torch.zeros(STATS, rows * TEAM, device=device).t(),  # means over rows are faster like this
        )
        self._rows = buffer.obs.view(-1, buffer.row_encoder.width)
        self.compute_gradients = loss_gradients.bind(rows * TEAM, device, self.batch, buffer.targets, coefs)

    def read(self, items: torch.Tensor) -> None:
        """Turn the rows of these items into numbers."""
        self.batch.idx.copy_(items)
        self._wide.read(self._rows, self.batch.idx)


class GpuPart:
    """Every minibatch as a whole, with the tensors for it. Ppo uses it as it uses the parts of a minibatch on a CPU.

    While gradients are computed, the rows of the next minibatch are read into a second set of tensors.
    """

    weight = 1.0

    def __init__(
        self, buffer: RolloutBuffer, network: nn.Module, coefs: Coefs, rows: int, precision: Precision
    ) -> None:
        """The parameters of the network move into one tensor, `weights`. rows: turns of a team in a minibatch."""
        device, self.items = buffer.device, rows
        self._dtype, self._packing = DTYPES.get(precision.name, torch.float32), buffer.packing
        self.weights = flatten(network.parameters())
        self._layers, self.gradients = dense_layers(network), Gradients(network)
        self._slots = [_Slot(buffer, self._layers, self.weights, coefs, rows, self._dtype) for _ in range(2)]
        self._wait: Callable[[], None] | None = None  # for the rows of the present slot
        on_gpu = device.type == "cuda"
        self._beside, self._ahead = Overlap(device, on_gpu), Overlap(device, on_gpu)
        self.next_items: torch.Tensor | None = None  # of the minibatch after the present one, if it is known

    @property
    def batch(self) -> Minibatch:
        """The last minibatch."""
        return self._slots[1].batch

    def inference(self) -> StackedInference:
        """The same network for the turns that are played."""
        return StackedInference(self._layers, self.weights[None], self._packing, self._dtype)

    def backward(self, _: Any, items: torch.Tensor) -> torch.Tensor:
        """Write the gradients of these items; returns the means of the statistics."""
        slot, following = self._slots
        passes, batch = slot.passes, slot.batch
        if self._wait is None:
            slot.read(items)
        else:
            self._wait()
        passes.take_weights()
        passes.forward()
        self._wait = None if self.next_items is None else self._ahead.run(following.read, self.next_items)
        slot.compute_gradients()
        passes.backward_outputs(batch.gradients.view(passes.outputs.shape))
        wait = self._beside.run(passes.backward_second)
        passes.backward_first()
        wait()
        passes.collect_gradients(self.gradients.flat[None])
        self._slots.reverse()
        return batch.stats.mean(0)

"""One optimizer step of two stacked networks on a GPU in two kernels: clipping, Adam, targets, copies of the weights.

The plain version is torch's `clip_grad_norm_`, Adam and a lerp. torch's Adam alone takes 52 us for a network of 750,000
weights on an H200: it cuts tensors into few pieces.
"""

import math
from collections.abc import Sequence

import torch

from marl.compute.adam import Adam
from marl.networks.stacked_pass import BLOCK, StackedPass, power_of_two

PARTS = 256  # programs of each network that sum up squares; a power of two


class StackedStep:
    """Steps of two networks whose gradients lie in one tensor; their passes and those of their targets get copies."""

    def __init__(
        self,
        optimizers: Sequence[Adam],
        online: StackedPass,
        targets: StackedPass,
        gradients: torch.Tensor,
    ) -> None:
        """gradients [2, P]. The optimizers' states become views of tensors like it."""
        self._online, self._targets, self._gradients = online, targets, gradients
        self._averages = [torch.zeros_like(gradients) for _ in range(2)]
        for i, optimizer in enumerate(optimizers):
            optimizer.use_flat(online.weights[i], gradients[i], [average[i] for average in self._averages])
        self._optimizers = optimizers
        device = gradients.device
        self._squares, self._step_before = torch.zeros(2, PARTS, device=device), torch.zeros(2, device=device)
        self.norms = torch.zeros(3, device=device)  # of the last step before clipping: of each network, and their sum

    def __call__(self, max_norm: float, tau: float) -> None:
        """Step each network whose norm is finite, and move the targets by tau. max_norm: 0 for no clipping."""
        from marl.networks.step_kernels import squares_kernel, stacked_step_kernel

        online, targets, gradients = self._online, self._targets, self._gradients
        size, sizes = gradients.shape[1], online.sizes
        steps = [optimizer.take_flat_states() for optimizer in self._optimizers]
        group, *_ = groups = [optimizer.param_groups[0] for optimizer in self._optimizers]
        rates = [torch.as_tensor(each["lr"], device=gradients.device) for each in groups]
        squares_kernel[(PARTS, 2)](
            gradients, self._squares, *steps, self._step_before, P=size, PARTS=PARTS, BLOCK=BLOCK
        )
        betas = group["betas"]
        numbers = (*betas, *(1 - beta for beta in betas), *map(math.log, betas), group["eps"], tau)
        stacked_step_kernel[(-(-size // BLOCK), 2)](
            online.weights, gradients, *self._averages, targets.weights, self._squares, self._step_before, *steps,
            *rates, self.norms, online.scale, *online.copies, *targets.copies,
            len(steps[0]), max_norm if max_norm > 0 else math.inf, *numbers,
            **sizes, PARTS=PARTS, TENSORS=power_of_two(len(steps[0])), BLOCK=BLOCK,
        )  # fmt: skip

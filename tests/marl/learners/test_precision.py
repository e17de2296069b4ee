"""An optimizer's step through Precision: gradients of one update never reach the next one."""

import copy
import math

import pytest
import torch

from marl.learners.adam import flatten
from marl.learners.precision import Precision

SEED = 29
CPU = torch.device("cpu")


@pytest.mark.parametrize("max_norm", [0.1, math.inf])
def test_steps_along_accumulated_flat_gradients_are_those_of_single_tensors(max_norm) -> None:
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    precision, plain = Precision("fp32", CPU), torch.nn.Linear(6, 4)
    flat = copy.deepcopy(plain)
    plain_optimizer, flat_optimizer = (precision.optimizer(each.parameters(), 0.01) for each in (plain, flat))
    weights = flatten(flat.parameters())
    flat_optimizer.use_flat(weights, torch.zeros_like(weights), accumulate=True)
    for _ in range(5):
        x = torch.randn(10, 6)
        norms = []
        for layer, optimizer in ((plain, plain_optimizer), (flat, flat_optimizer)):
            precision.backward(optimizer, layer(x).square().mean())
            norms.append(precision.optimizer_step(optimizer, max_norm).item())
        assert norms[0] == pytest.approx(norms[1], rel=1e-5), f"seed {SEED}"
    for left, right in zip(plain.parameters(), flat.parameters(), strict=True):
        torch.testing.assert_close(left, right, msg=f"seed {SEED}")

"""Statistics add up in the kernel of a GPU as they do on a CPU."""

import math

import pytest
import torch
from helpers.collecting import CPU

from marl.learners.learner import Learner
from marl.learners.stats_kernels import add_stats


class Sums:
    """As much of a learner as `_add_numbers` needs."""

    _add_numbers = Learner._add_numbers

    def __init__(self) -> None:
        self.sums, self._skipped_in_a_row = torch.full((4,), 2.0), torch.ones(())


@pytest.mark.parametrize("stepped", [True, False])
@pytest.mark.parametrize(
    ("stats", "norm"), [((1.5, -2.0), 3.0), ((math.nan, 1.0), math.inf), ((math.inf, -math.inf), math.nan)]
)
def test_the_kernel_adds_what_a_cpu_adds(stats, norm, stepped) -> None:
    on_cpu, in_kernel = Sums(), Sums()
    for _ in range(2):
        on_cpu._add_numbers(stats, norm, stepped)
        tensors = (in_kernel.sums, in_kernel._skipped_in_a_row.view(1))
        add_stats.bind(3, CPU, torch.tensor(stats), torch.tensor([norm]), stepped, *tensors)()
    assert torch.equal(on_cpu.sums, in_kernel.sums)
    assert on_cpu._skipped_in_a_row == in_kernel._skipped_in_a_row

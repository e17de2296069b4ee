"""Work that is recorded as a CUDA graph does what it does without one."""

import pytest
import torch

from arena.backends.cuda_graphs import Captured, CapturedBriefly

pytestmark = pytest.mark.needs_cuda
CALLS = 9
SIZE = 1 << 22  # of a temporary tensor, in numbers of four bytes


def counting(device: torch.device):
    """A sum, and a function that adds 1, 2, ... to it and needs memory for it."""
    total, number = torch.zeros(2, dtype=torch.int64, device=device).unbind()

    def add() -> None:
        number.add_(1)
        total.add_((number.float() * torch.ones(SIZE, device=device))[-1].long())

    return total, add


@pytest.mark.parametrize("kind", [CapturedBriefly, lambda add, device: Captured(add, device, True)])
def test_every_call_counts_once(kind) -> None:
    device = torch.device("cuda", 0)
    total, add = counting(device)
    captured = kind(add, device)
    for _ in range(CALLS):
        captured()
    assert total.item() == CALLS * (CALLS + 1) // 2


def test_brief_graphs_need_memory_for_one() -> None:
    device = torch.device("cuda", 0)
    reserved = []
    for _ in range(40):
        total, add = counting(device)
        captured = CapturedBriefly(add, device)
        for _ in range(CALLS):
            captured()
        assert total.item() == CALLS * (CALLS + 1) // 2
        reserved.append(torch.cuda.memory_reserved(device))
    assert reserved[-1] == reserved[1]


def test_a_mistake_in_a_recording_is_raised_and_the_next_recording_works() -> None:
    device = torch.device("cuda", 0)
    total, add = counting(device)

    def fail() -> None:
        add()
        if torch.cuda.is_current_stream_capturing():
            raise LookupError("in the recording")

    failing = CapturedBriefly(fail, device)
    failing()
    with pytest.raises(LookupError, match="in the recording"):
        failing()
    total, add = counting(device)
    captured = CapturedBriefly(add, device)
    for _ in range(CALLS):
        captured()
    assert total.item() == CALLS * (CALLS + 1) // 2

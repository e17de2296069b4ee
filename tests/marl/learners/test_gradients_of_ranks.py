"""Every learner in two real ranks: the gradients of a step are those of one process with the rows of both."""

import pytest
import torch
from helpers import learners_as_ranks
from helpers.collecting import CPU
from helpers.learners_as_ranks import CASES, UPDATES
from helpers.training import as_two_ranks

from marl.ranks.process_group import Solo
from marl.registry import LEARNERS

pytestmark = pytest.mark.usefixtures("one_thread")
SEED = learners_as_ranks.SEED
# By the norm of the gradients. Later ones follow a step of Adam, in which a gradient of nearly 0 counts like any other.
ROUNDING = [1e-4, 3e-2]


@pytest.fixture(scope="module", params=["", "gloo"], ids=["shared memory", "gloo"])
def ranks(request, tmp_path_factory) -> list[dict]:
    return as_two_ranks(learners_as_ranks.all_cases, tmp_path_factory.mktemp("ranks"), request.param)


@pytest.fixture(scope="module")
def alone():
    """The same case in one process, computed once."""
    found: dict[str, dict] = {}

    def ask(case: str) -> dict:
        if case not in found:
            found[case] = CASES[case](Solo(CPU))
        return found[case]

    return ask


def test_every_learner_is_a_case() -> None:
    assert set(LEARNERS) <= set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_two_ranks_are_those_of_one_process_with_all_their_rows(ranks, alone, case) -> None:
    one, (first, second) = alone(case), (found[case] for found in ranks)
    assert one.keys() == first.keys() == second.keys()
    gradients = [name for name in one if "gradients of" in name]
    assert len({name[0] for name in gradients}) == UPDATES
    for name, expected in one.items():
        assert torch.equal(first[name], second[name]), f"{name} differs between the ranks"
        if name in gradients:
            apart = (first[name] - expected).norm() / expected.norm().clamp(min=1e-12)
            assert apart < ROUNDING[int(name[0])], f"{name}: {apart:.2g} of its norm"
        else:
            torch.testing.assert_close(first[name], expected, rtol=0, atol=1e-3)
    last = [one[name] for name in gradients if name[0] == str(UPDATES - 1)]
    assert all(each.norm() > 1e-4 for each in last), "every network learns"


def test_without_the_other_ranks_rows_the_gradients_are_others(alone) -> None:
    """The comparison can fail: half of the rows give another gradient."""
    whole, half = alone("ddpg"), CASES["ddpg"](HalfOfTwo(CPU))
    name = "0. gradients of critic"
    assert (whole[name] - half[name]).norm() > 0.05 * whole[name].norm()


class HalfOfTwo(Solo):
    """A rank of two that exchanges nothing."""

    world = 2

"""DDPG in two real ranks learns from their rows as one process does from all of them, but for rounding."""

import pytest
import torch
from helpers import ddpg_as_ranks
from helpers.ddpg_as_ranks import CASES, CPU, updates
from helpers.training import as_two_ranks

from marl.ranks.process_group import Solo

pytestmark = pytest.mark.usefixtures("one_thread")
SEED = ddpg_as_ranks.SEED


@pytest.fixture(scope="module", params=["", "gloo"], ids=["shared memory", "gloo"])
def ranks(request, tmp_path_factory) -> list[dict]:
    return as_two_ranks(ddpg_as_ranks.all_cases, tmp_path_factory.mktemp("ranks"), request.param)


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_learn_as_one_process_with_all_their_rows(ranks, case) -> None:
    alone, (first, second) = updates(Solo(CPU), **CASES[case]), (found[case] for found in ranks)
    assert alone.keys() == first.keys() == second.keys()
    for name, expected in alone.items():
        assert torch.equal(first[name], second[name]), name
        tolerance = {"rtol": 1e-3, "atol": 1e-6} if name.startswith("gradients") else {"rtol": 0, "atol": 1e-4}
        torch.testing.assert_close(first[name], expected, **tolerance, msg=lambda text, name=name: f"{name}: {text}")
    assert all(alone[f"gradients of {name}"].abs().max() > 1e-4 for name in ("actor", "critic"))

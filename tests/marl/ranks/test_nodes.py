"""How many ranks a node starts, and the place of a node among the others."""

import pytest

from marl.errors import UserError
from marl.ranks.nodes import choose_cpu_ranks, choose_ranks_per_node, read_nodes


@pytest.mark.parametrize(
    ("environment", "gpus", "asked", "expected"),
    [
        ({}, 0, None, 6),
        ({"NPROC": "20"}, 0, None, 20),
        ({}, 2, None, 2),
        ({"NPROC": "3"}, 0, None, 3),
        ({"NPROC": "4"}, 2, None, 4),
        ({"NPROC": ""}, 2, None, 2),
        ({}, 4, 2, 2),
        ({"NPROC": "4"}, 4, 2, 2),
    ],
)
def test_choose_ranks_per_node(environment, gpus, asked, expected) -> None:
    assert choose_ranks_per_node(environment, 6, gpus, asked) == expected


@pytest.mark.parametrize(
    ("cores", "shares_memory", "splits_small", "expected"),
    [
        (1, True, True, 1),
        (2, True, False, 1),
        (3, True, False, 1),
        (4, True, True, 4),
        (12, True, True, 12),
        (128, True, False, 16),
        (16, False, True, 1),
        (1, False, False, 1),
        (8, False, False, 4),
        (128, False, False, 8),
    ],
)
def test_choose_cpu_ranks(cores, shares_memory, splits_small, expected) -> None:
    assert choose_cpu_ranks(cores, shares_memory, splits_small) == expected


@pytest.mark.parametrize(
    ("environment", "gpus", "asked", "message"),
    [
        ({"NPROC": "two"}, 0, None, "NPROC=two: a whole number"),
        ({"NPROC": "0"}, 0, None, "NPROC=0: a whole number of at least 1"),
        ({"NPROC": "-1"}, 0, None, "NPROC=-1"),
        ({}, 0, 4, "--num_gpus 4: this machine has no GPU; use NPROC=4 ./train_ddp.sh for 4 CPU ranks"),
        ({}, 2, 4, "--num_gpus 4: this machine has 2"),
        ({}, 2, 0, "--num_gpus 0"),
    ],
)
def test_choose_ranks_per_node_mistakes(environment, gpus, asked, message) -> None:
    with pytest.raises(UserError) as caught:
        choose_ranks_per_node(environment, 4, gpus, asked)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ((1, 1), 0, None, None)),
        ({"MASTER_PORT": "12356"}, ((1, 1), 0, None, 12356)),
        (
            {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "n0", "MASTER_PORT": "29500"},
            ((2, 2), 1, "n0", 29500),
        ),
        ({"NNODES": "1:4", "NODE_RANK": "3", "MASTER_ADDR": "n0"}, ((1, 4), 3, "n0", None)),
    ],
)
def test_read_nodes(environment, expected) -> None:
    assert read_nodes(environment) == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"NNODES": "2"}, "NNODES=2 but MASTER_ADDR is not set"),
        ({"NNODES": "2", "MASTER_ADDR": "n0"}, "NNODES=2 but NODE_RANK is not set"),
        ({"NNODES": "2", "MASTER_ADDR": "n0", "NODE_RANK": "2"}, "NODE_RANK=2 but NNODES=2"),
        ({"NODE_RANK": "1"}, "NODE_RANK=1 but NNODES=1"),
        ({"NODE_RANK": "first"}, "NODE_RANK=first: a whole number"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT=http: a whole number"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT=70000"),
        ({"NNODES": "0"}, "NNODES=0"),
        ({"NNODES": "4:2"}, "NNODES=4:2"),
        ({"NNODES": "many"}, "NNODES=many"),
    ],
)
def test_read_nodes_mistakes(environment, message) -> None:
    with pytest.raises(UserError) as caught:
        read_nodes(environment)
    assert str(caught.value).startswith(message)

"""The variables of a launcher, as a rank and as a process without ranks sees them."""

from marl.ranks import environment

RANK_1 = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "n0", "MASTER_PORT": "29400", "TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_USE_AGENT_STORE": "True",
}  # fmt: skip


def test_a_process_without_ranks(alone) -> None:
    assert not environment.is_rank()
    assert environment.is_first_on_node()
    assert environment.ranks_on_this_node() == 1
    assert environment.launch_id() is None
    assert not environment.agent_hosts_store()
    assert environment.read_rank_environment() is None


def test_the_second_rank_of_a_node(alone) -> None:
    for name, value in RANK_1.items():
        alone.setenv(name, value)
    assert environment.is_rank()
    assert not environment.is_first_on_node()
    assert environment.ranks_on_this_node() == 2
    assert environment.launch_id() == "x"
    assert environment.agent_hosts_store()
    assert environment.read_rank_environment() == (3, 4, 1, 2, "n0", 29400)


def test_without_the_number_of_ranks_on_a_node_there_are_at_least_those_up_to_this_one() -> None:
    variables = {name: value for name, value in RANK_1.items() if name != "LOCAL_WORLD_SIZE"}
    assert environment.read_rank_environment(variables).local_world == 2

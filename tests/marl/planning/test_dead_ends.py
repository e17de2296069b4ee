"""The search for dead ends is the plain recursion, and a pocket costs the length of a snake."""

import pytest
import torch
from helpers.drawn_boards import CIRCLE, arena_of, draw
from helpers.exporting import recorded_states
from helpers.plain_search import goes_on

from arena.dangers import is_dead_end
from arena.match_dict import to_dict
from arena.rules import ACTIONS, DOWN, RIGHT, START_LENGTH, TEAM, UP, neighbour
from marl.planning.planner import write_losses

SEED = 0  # nothing is drawn here
pytestmark = pytest.mark.usefixtures("one_thread")


def test_it_is_the_plain_recursion() -> None:
    found = 0
    for state in recorded_states()[5::397].numpy():
        bodies = [[row * 20 + column for row, column in body] for body in to_dict(state)["snakes"]]
        waits = {cell: len(body) - age for body in bodies for age, cell in enumerate(body)}
        for snake, body in enumerate(bodies):
            for action in range(ACTIONS):
                dead = not goes_on(waits, len(body), [], neighbour(body[0], action))
                assert is_dead_end(state, snake, action) == dead, (snake, action)
                found += dead
    assert found > 40


@pytest.mark.parametrize("swap", [False, True])
def test_a_pocket_costs_the_length_beyond_that_of_a_new_snake(swap) -> None:
    """To the right of A is a pocket of two cells, below it D's body; only the way up is open."""
    drawing = """
        ....v<<<<<
        ....>>v...
        >>>A..v...
        D<<<<<<...
        """
    losses = losses_of(drawing, swap)
    lost = 4 - START_LENGTH
    assert losses[0, [UP, DOWN, RIGHT]].tolist() == [0, lost, lost]
    assert not losses[1:].any(), "the others stand in the open, or have nothing to lose"


@pytest.mark.parametrize("length", CIRCLE)
def test_a_snake_of_four_cells_can_turn_in_a_circle_of_four_cells(length) -> None:
    lost = length - START_LENGTH
    assert losses_of(CIRCLE[length])[0, [UP, DOWN, RIGHT]].tolist() == [lost, lost, lost if length > 4 else 0]


def losses_of(drawing: str, swap: bool = False) -> torch.Tensor:
    """The losses [3, 4] of A's team."""
    arena = arena_of(draw(drawing, swap=swap))
    losses = torch.full((1, TEAM, ACTIONS), -1.0)
    side = torch.tensor([int(swap)])
    write_losses.bind(losses.numel(), arena.device, arena.state, torch.zeros(1).long(), side, losses)()
    return losses[0]


@pytest.mark.needs_cuda
def test_a_gpu_finds_the_same_dead_ends() -> None:
    states = recorded_states()[::7].contiguous()
    found = []
    for device in map(torch.device, ("cpu", "cuda")):
        idx = torch.arange(len(states), device=device)
        losses = torch.full((len(states), TEAM, ACTIONS), -1.0, device=device)
        write_losses.bind(losses.numel(), device, states.to(device), idx, idx % 2, losses)()
        found.append(losses.cpu())
    assert torch.equal(*found)

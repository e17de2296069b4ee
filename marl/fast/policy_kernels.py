"""The likeliest legal actions from a network's outputs, as a compiled loop."""

from arena.encoders.orientation import local_action
from arena.jit import njit
from arena.rules import ACTIONS, SNAKES


@njit
def choose_on_board(outputs, obs, direction_at, orientation_at, masked_logit, seats, moves):
    """Write the actions on the board of N seats into moves [B, 6]; of equal ones, the first action on the board.

    outputs [N, 4 or more]: logits of local actions. obs [N, W]: what an encoder has written, with the direction as four
    numbers at direction_at, and the orientation at orientation_at (-1: the board as it is).
    """
    for i in range(seats.shape[0]):
        orientation = int(obs[i, orientation_at]) if orientation_at >= 0 else 0
        chosen, highest = 0, outputs[i, 0]
        for action in range(ACTIONS):
            local = local_action(orientation, action) if orientation_at >= 0 else action
            logit = outputs[i, local]
            if obs[i, direction_at + (local ^ 1)] != 0:  # the reversal
                logit = masked_logit
            if action == 0 or logit > highest:
                chosen, highest = action, logit
        moves[int(seats[i]) // SNAKES, int(seats[i]) % SNAKES] = chosen

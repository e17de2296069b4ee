"""Outputs of policies, added to a replay: of the state before each turn, for the snakes of the policy alone."""

import torch

from arena.replay import read, write
from arena.rules import TURN
from opponents.match import play
from opponents.players import find
from opponents.policy_outputs import add_policy_outputs, is_policy


class Counting:
    """A policy whose value is the turn that it sees, plus its number of earlier moves (its hidden state)."""

    name = "counting"

    def begin(self, arena, seats):
        self.moves = 0

    def act(self, arena, seats, moves):
        self.moves += 1

    def policy_outputs(self, arena, seats):
        turns = arena.state[seats.long() // 6, TURN].float()
        return torch.tensor([[0.123456, 0.0, 0.876544, 0.0]]).expand(len(seats), 4), turns + 100 * self.moves

    def close(self):
        pass


def test_each_turn_has_the_outputs_of_the_state_before_it(tmp_path):
    replay = play("level0", "level1", 1, seed=3, record=True).replays["first"]
    scripted, policy = find("level0"), Counting()
    assert (is_policy(scripted), is_policy(policy)) == (False, True)
    recorded = add_policy_outputs(replay, scripted, policy)
    write(tmp_path / "m.jsonl", recorded)
    back = read(tmp_path / "m.jsonl")
    assert back == recorded
    assert back.actions() == replay.actions()
    for i, turn in enumerate(back.turns):
        assert turn["probs"] == [None] * 3 + [[0.1235, 0.0, 0.8765, 0.0]] * 3
        assert turn["values"] == [None] * 3 + [101.0 * i] * 3

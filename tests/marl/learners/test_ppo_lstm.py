"""PPO with an LSTM: sequences, ends of matches, the hidden state at the start of a round, players with hidden states,
and a task that needs them.

The round of updates itself is compared with slow formulas in test_ppo.py, with and without an LSTM.
"""

import pytest
import torch
from helpers.collecting import CPU
from helpers.ppo_rounds import a_ppo, assert_rounds_are_replayed, batches_of, begin, play

from arena import BatchArena
from arena.encoders import encoder_named
from arena.encoders.features import F_BEANS, F_DIRECTION, F_MATES
from arena.rules import ACTIONS, SNAKES, TEAM, TURN, TURNS
from marl.config.learner_configs import PpoConfig
from marl.config.sections import NetworkConfig, RewardConfig
from marl.learners.ppo import KL
from marl.learners.ppo_lstm import PpoLstm
from marl.learners.precision import Precision
from marl.learners.rollout_buffer import RolloutBuffer
from marl.networks.actors import RecurrentActor, make_actor
from marl.networks.spec import NetworkSpec
from marl.ranks.process_group import Solo
from marl.rollout.assignment import MatchAssignment
from marl.rollout.rollout import Rollout
from marl.storage.policy_player import PolicyPlayer

SEED = 17
pytestmark = pytest.mark.usefixtures("one_thread")
TURNS_SEEN, SNAKES_SEEN, WIDTH = 9, 6, 10
ENCODER = encoder_named("features")
plain_and_talking = pytest.mark.parametrize("messages", [False, True], ids=["plain", "messages"])


def an_actor(messages: bool = False) -> RecurrentActor:
    torch.manual_seed(SEED)
    actor = make_actor(ENCODER, NetworkSpec((16, 12), ACTIONS + 1, messages=messages, lstm_size=WIDTH)).double()
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return actor


def some_turns() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Observations, first turns, and a hidden state from before. The two teams' matches end at different turns."""
    generator = torch.Generator().manual_seed(SEED)
    obs = torch.randint(-5, 6, (TURNS_SEEN, SNAKES_SEEN, ENCODER.width), generator=generator).double()
    is_first = torch.zeros(TURNS_SEEN, SNAKES_SEEN, dtype=torch.bool)
    is_first[3, :TEAM] = is_first[4, :TEAM] = is_first[6, TEAM:] = True
    hidden = torch.randn(2, SNAKES_SEEN, WIDTH, generator=generator, dtype=torch.double)
    return obs, is_first, hidden


# --- sequences


@plain_and_talking
def test_a_sequence_is_answered_as_step_by_step(messages) -> None:
    actor, (obs, is_first, hidden) = an_actor(messages), some_turns()
    outputs = actor(obs, is_first, hidden)
    for t in range(TURNS_SEEN):
        of_turn, hidden = actor.step(obs[t], is_first[t], hidden)
        torch.testing.assert_close(outputs[t], of_turn, rtol=0, atol=1e-12)


@plain_and_talking
def test_a_sequence_is_what_the_slow_formulas_say(messages) -> None:
    """An LSTM as it is written in books, one snake after another, cut where matches end."""
    actor, (obs, is_first, hidden) = an_actor(messages), some_turns()
    outputs = actor(obs, is_first, hidden)
    x = torch.relu(obs * actor.first.scale @ actor.first.weight.T + actor.first.bias)
    if messages:
        teams = (obs * actor.first.scale @ actor.first.weight.T + actor.first.bias).unflatten(1, (-1, TEAM))
        messages_sent = [
            sum(torch.relu(teams[:, :, mate]) for mate in range(TEAM) if mate != k) @ actor.mates.layer.weight.T
            for k in range(TEAM)
        ]
        x = torch.relu(teams + torch.stack(messages_sent, 2) + actor.mates.layer.bias).flatten(1, 2)
    for layer in actor.layers:
        x = torch.relu(x @ layer.weight.T + layer.bias)
    cell = actor.cell
    for snake in range(SNAKES_SEEN):
        h, c = hidden[0, snake], hidden[1, snake]
        for t in range(TURNS_SEEN):
            if is_first[t, snake]:
                h, c = torch.zeros(WIDTH).double(), torch.zeros(WIDTH).double()
            gates = cell.weight_ih @ x[t, snake] + cell.bias_ih + cell.weight_hh @ h + cell.bias_hh
            input_gate, forget_gate, new, output_gate = gates.chunk(4)
            c = torch.sigmoid(forget_gate) * c + torch.sigmoid(input_gate) * torch.tanh(new)
            h = torch.sigmoid(output_gate) * torch.tanh(c)
            expected = actor.head.weight @ h + actor.head.bias
            torch.testing.assert_close(outputs[t, snake], expected, rtol=0, atol=1e-6)  # gates are float32


def test_a_step_and_its_gradients_are_those_of_torchs_cell() -> None:
    actor, (obs, is_first, hidden) = an_actor().float(), some_turns()
    x = torch.relu(actor.first(obs.float()))
    for layer in actor.layers:
        x = torch.relu(layer(x))
    h, c, expected = *hidden.float(), []
    for t in range(TURNS_SEEN):
        begins = is_first[t][:, None]
        h, c = actor.cell(x[t], (h.masked_fill(begins, 0), c.masked_fill(begins, 0)))
        expected.append(actor.head(h))
    outputs, weights = actor(obs.float(), is_first, hidden.float()), list(actor.parameters())
    torch.testing.assert_close(outputs, torch.stack(expected), rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad(each.square().mean(), weights) for each in (outputs, torch.stack(expected))]
    for mine, its in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-3, atol=1e-5)


def test_a_sequence_in_pieces_is_the_sequence() -> None:
    actor, (obs, is_first, hidden) = an_actor(), some_turns()
    whole = actor(obs, is_first, hidden)
    first = actor(obs[:5], is_first[:5], hidden)
    for t in range(5):
        _, hidden = actor.step(obs[t], is_first[t], hidden)
    second = actor(obs[5:], is_first[5:], hidden)
    torch.testing.assert_close(torch.cat((first, second)), whole, rtol=0, atol=1e-12)


def test_matches_in_a_batch_do_not_know_of_each_other() -> None:
    actor, (obs, is_first, hidden) = an_actor(messages=True), some_turns()
    whole = actor(obs, is_first, hidden)
    for team in (slice(0, TEAM), slice(TEAM, SNAKES_SEEN)):
        alone = actor(obs[:, team], is_first[:, team], hidden[:, team])
        torch.testing.assert_close(alone, whole[:, team], rtol=0, atol=1e-12)


# --- match ends


def test_the_hidden_state_is_zero_after_an_end() -> None:
    """Nothing before the end changes an output after it; within a match everything does."""
    actor, (obs, is_first, hidden) = an_actor(), some_turns()
    outputs = actor(obs, is_first, hidden)
    other = obs.clone()
    other[:6] += 1
    changed = (actor(other, is_first, hidden + 1) != outputs).any(-1)
    assert changed[:6].all()
    assert changed[6:, :TEAM].all(), "it goes on from turn 4"
    assert not changed[6:, TEAM:].any(), "it begins at turn 6"
    fresh = actor(obs[6:, TEAM:], is_first[6:, TEAM:], actor.initial_state(TEAM, CPU).double())
    torch.testing.assert_close(outputs[6:, TEAM:], fresh, rtol=0, atol=1e-12)


def test_gradients_do_not_cross_matches() -> None:
    actor, (obs, is_first, hidden) = an_actor(), some_turns()
    obs.requires_grad_()
    hidden.requires_grad_()
    outputs = actor(obs, is_first, hidden)
    of_obs, of_hidden = torch.autograd.grad(outputs[7].square().sum(), (obs, hidden))
    for snake in range(SNAKES_SEEN):
        begun = 4 if snake < TEAM else 6
        reach = [bool(of_obs[t, snake].ne(0).any()) for t in range(TURNS_SEEN)]
        assert reach == [begun <= t <= 7 for t in range(TURNS_SEEN)], snake
    assert not of_hidden.any()
    of_obs, of_hidden = torch.autograd.grad(actor(obs, is_first, hidden)[2].sum(), (obs, hidden))
    assert of_obs[:3].flatten(2).ne(0).any(-1).all()
    assert of_hidden.ne(0).any(-1).all(), "before the first end, the first hidden state counts"


# --- rounds


def test_a_batch_learns_from_the_hidden_state_at_the_start_of_the_round(monkeypatch) -> None:
    """The first outputs of a round, computed again before anything is learned, are those that were played with."""
    learner, rollout = a_ppo(16, 10, seed=SEED, recurrent=True, spread=0.2, batch_size=4 * 10 * TEAM, lr=0.0)
    begin(rollout)
    for _ in range(3):
        first_hidden = learner.rank_state()["memory"].clone()
        play(learner, rollout)
        with monkeypatch.context() as patch:
            batches = batches_of(learner, patch)
            learner.learn()
        assert learner.minibatches.batches == len(batches) == 4
        buffer = learner.buffer
        assert buffer.terminated.any()
        for batch in batches:
            idx, outputs = batch["idx"], batch["outputs"]
            played = buffer.values[:-1].flatten(0, 1)[idx]
            torch.testing.assert_close(outputs[..., ACTIONS], played, rtol=0, atol=1e-5)
            assert batch["stats"][KL] < 1e-6, "nor have the actions become more or less likely"
            # By hand, the first turn of one team.
            team = int(idx[0])
            assert team < buffer.teams
            obs, is_first = buffer.obs[0, team], learner._is_first[0, team].expand(TEAM)
            hidden = first_hidden.view(2, buffer.teams, TEAM, -1)[:, team]
            expected, _ = learner.actor.step(obs, is_first, hidden)
            torch.testing.assert_close(outputs[0], expected.detach(), rtol=0, atol=1e-5)
    assert first_hidden.any()


def test_a_hidden_state_belongs_to_the_match_that_goes_on() -> None:
    """After several rounds it is that of the match played again alone from its first turn."""
    learner, rollout = a_ppo(8, 10, seed=SEED, recurrent=True, spread=0.2)
    begin(rollout)
    obs, is_first = [], []
    for _ in range(TURNS // learner.turns + 2):
        play(learner, rollout)
        obs.append(learner.buffer.obs.clone())
        is_first.append(learner._is_first.clone())
    obs, is_first = torch.cat(obs), torch.cat(is_first)
    found = learner.rank_state()["memory"].view(2, 8, TEAM, -1)
    for team in range(8):
        first = int(is_first[:, team].nonzero()[-1])
        hidden = learner.actor.initial_state(TEAM, CPU)
        for t in range(first, len(obs)):
            _, hidden = learner.actor.step(obs[t, team], torch.zeros(TEAM, dtype=torch.bool), hidden)
        torch.testing.assert_close(found[:, team], hidden.detach(), rtol=0, atol=1e-5)


def test_the_value_after_the_round_uses_the_hidden_states_and_does_not_change_them() -> None:
    learner, rollout = a_ppo(8, 10, seed=SEED, recurrent=True, spread=0.2, lr=0.0)
    begin(rollout)
    play(learner, rollout)
    before = learner.rank_state()["memory"].clone()
    learner.learn()
    assert torch.equal(learner.rank_state()["memory"], before)
    last = learner.buffer.values[-1].clone()
    play(learner, rollout)
    torch.testing.assert_close(learner.buffer.values[0], last, rtol=0, atol=1e-5)


# --- as a player


def moves_of(player: PolicyPlayer, first: int, matches: int = 1) -> torch.Tensor:
    """The player's actions in several matches at once, in all seats: [matches, 60, 6]."""
    arena = BatchArena(matches, CPU, SEED, first_match=first)
    arena.start()
    seats = torch.arange(matches * SNAKES, dtype=torch.int32)
    player.begin(arena, seats)
    moves, played = torch.zeros(matches, SNAKES, dtype=torch.int8), []
    for _ in range(60):
        player.act(arena, seats, moves)
        played.append(moves.clone())
        arena.play_turn(moves)
    return torch.stack(played, 1)


def test_a_player_with_a_hidden_state_plays_a_match_the_same_alone_and_in_a_batch(monkeypatch) -> None:
    player = PolicyPlayer(an_actor().float().requires_grad_(False), ENCODER, "team")
    together = moves_of(player, 0, 4)
    for match in range(4):
        assert torch.equal(moves_of(player, match)[0], together[match]), match
    forgetful = PolicyPlayer(player.actor, ENCODER, "forgetful")
    forward = forgetful._forward

    def forget(arena, seats):
        monkeypatch.setattr(forgetful, "_hidden", player.actor.initial_state(len(seats), CPU))
        return forward(arena, seats)

    monkeypatch.setattr(forgetful, "_forward", forget)
    assert not torch.equal(moves_of(forgetful, 0, 4), together)


def test_a_player_forgets_the_match_before() -> None:
    player = PolicyPlayer(an_actor().float().requires_grad_(False), ENCODER, "team")
    arena = BatchArena(2, CPU, SEED)
    arena.start()
    seats = torch.arange(2 * SNAKES, dtype=torch.int32)
    player.begin(arena, seats)
    moves = torch.zeros(2, SNAKES, dtype=torch.int8)
    for _ in range(TURNS):
        player.act(arena, seats, moves)
        arena.play_turn(moves)
    arena.start()  # the next matches, in the same seats
    old = player._hidden.clone()
    probs, values = player.policy_outputs(arena, seats)
    assert torch.equal(player._hidden, old), "asking for its outputs changes nothing"
    player.begin(arena, seats)
    expected_probs, expected_values = player.policy_outputs(arena, seats)
    torch.testing.assert_close(probs, expected_probs)
    torch.testing.assert_close(values, expected_values)
    assert old.any()


# --- a task that needs it


def mean_reward(patch: pytest.MonkeyPatch, recurrent: bool, rounds: int = 32) -> float:
    """Beans eaten in a snake's turn, in the last quarter of a training. Snakes see their own direction and,
    every other turn, the nearest bean, and nothing else."""
    learner, rollout = a_ppo(
        64, 16, {"level0": 1.0}, SEED, recurrent=recurrent, body=(32,), batch_size=1024, epochs=2, lr=6e-3, lr_end=0.3,
        gamma=0.9, entropy=0.01, entropy_end=0.001, max_grad_norm=0.5,
        reward=RewardConfig(preset="score", own=0.0, eat=1.0),
    )  # fmt: skip
    observe, turn = rollout.observe, rollout.arena.state[:, TURN]

    def dim() -> torch.Tensor:
        obs = observe()
        obs[:, :F_DIRECTION] = 0
        obs[:, F_DIRECTION + 4 : F_BEANS] = 0
        obs[:, F_BEANS + 2 :] = 0
        obs[(turn % 2 == 1).repeat_interleave(TEAM), F_BEANS:F_MATES] = 0
        return obs

    patch.setattr(rollout, "observe", dim)
    begin(rollout)
    rewards = []
    for number in range(rounds):
        play(learner, rollout)
        rewards.append(learner.buffer.rewards.mean().item())
        learner.anneal(1.0, number / rounds)
        learner.learn()
    last = rewards[-rounds // 4 :]
    print(f"recurrent {recurrent}: {sum(last) / len(last):.3f}")
    return sum(last) / len(last)


def test_where_beans_are_hidden_every_other_turn_an_lstm_beats_none(monkeypatch) -> None:
    """Measured with eight seeds: 0.09 to 0.14 with an LSTM, 0.05 to 0.06 without; 1.4 to 2.7 times as much."""
    # oneDNN is several times slower for cells this small on some CPUs.
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert mean_reward(monkeypatch, True) > 1.25 * mean_reward(monkeypatch, False)


# --- on a GPU


@pytest.mark.needs_cuda
def test_rounds_on_a_gpu_are_recorded_as_graphs_and_replayed() -> None:
    print(f"seed {SEED}")
    device, turns = torch.device("cuda", 0), 4
    assignment = MatchAssignment(64, self_play_both=tuple(range(32)))
    buffer = RolloutBuffer(turns, assignment.teams, encoder_named("planes"), device, 7)
    network = NetworkConfig(encoder="planes", body=(256, 128), lstm_size=128)
    config = PpoConfig(batch_size=assignment.teams * turns * TEAM // 2, epochs=1, lr=1e-3)
    learner = PpoLstm(config, network, buffer, Solo(device), Precision("bf16", device), 1, SEED)
    rollout = Rollout(assignment, ("level0",), RewardConfig().weights(), buffer, SEED, outputs=learner.outputs)
    rollout.set_mix({"level0": 1.0})
    learner.attach(rollout)
    assert_rounds_are_replayed(learner, rollout)
    sums = learner.sums.tolist()
    assert sums[-1] == 0, f"skipped updates, seed {SEED}: {sums}"
    left = [parameter.grad for parameter in learner.network.parameters() if parameter.grad is not None]
    assert not any(gradient.any() for gradient in left), f"gradients of one update reach the next, seed {SEED}"

"""The rollout: the same matches on any number of ranks, both colours, the schedule's opponents, true transitions."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.chosen_opponent import chosen_opponent
from helpers.collecting import WholeNumbers, a_rollout, seat_frozen_players, started
from hypothesis import given
from hypothesis import strategies as st

from arena import BatchArena
from arena.encoders import encoder_named
from arena.encoders.orientation import LOCAL_ACTIONS
from arena.rules import DIRECTION, LENGTH, OVER, SNAKES, START_LENGTH, TEAM, TURN, TURNS
from marl.config.sections import RewardConfig
from marl.rollout.assignment import MatchAssignment, assign_matches
from marl.rollout.rollout import Rollout
from marl.storage.saver import on_host
from opponents import loops
from opponents.scripted import SCRIPTED

SEED = 1961
FEATURES = encoder_named("features")
# Turn -> the mix from there on: opponents come, go and come back while matches are going on.
MIXES = {
    0: {"level0": 0.5, "level1": 0.5},
    90: {"level2": 1.0},
    250: {"level0": 0.2, "level2": 0.8},
}


@pytest.fixture(autouse=True)
def seed_printed():
    print(f"seed {SEED}")


# --- ranks ------------------------------------------------------------------------------------------------------------


# Shares of the matches: none, half of them against itself on both sides, and a third so, with all kinds of others.
SHARES = {
    "plain": {},
    "both": {"self_play_both": 0.5},
    "all kinds": {"self_play_both": 1 / 3, "self_play_one": 1 / 6, "past_selves": 1 / 3, "seats": 2},
}


def with_shares(matches: int, shares: dict, **options) -> Rollout:
    """A rollout in which two past selves and the team itself play where the assignment says so."""
    rollout = a_rollout(assign_matches(matches, **shares), seed=SEED, **options)
    past_selves = [WholeNumbers(FEATURES, SEED + 1 + i) for i in range(len(rollout.past_self_seats))]
    return started(seat_frozen_players(rollout, past_selves, itself=WholeNumbers(FEATURES, SEED)))


@pytest.mark.parametrize(
    ("world", "kind", "turns"), [(2, "plain", 430), (4, "plain", 130), (2, "both", 130), (2, "all kinds", 130)]
)
def test_ranks_play_the_same_matches_as_one(world, kind, turns) -> None:
    """world x B = 1 x world B: numbers, states, opponents, actions and everything in the buffers, turn by turn."""
    matches, actor, shares = 24 // world, WholeNumbers(FEATURES, SEED), SHARES[kind]
    whole = with_shares(24, shares, first_match=100)
    parts = [with_shares(matches, shares, rank=rank, world=world, first_match=100) for rank in range(world)]
    tally = torch.zeros_like(whole.pop_results().tally)
    for turn in range(turns):
        for rollout in (whole, *parts):
            if turn in MIXES:
                rollout.set_mix(MIXES[turn])
            rollout.play_turn(actor)
        for name in ("numbers", "state"):
            together = torch.cat([getattr(part.arena, name) for part in parts])
            assert torch.equal(together, getattr(whole.arena, name)), f"{name} after turn {turn}, seed {SEED}"
        for name in ("opponent_id", "board_actions"):
            together = torch.cat([getattr(part, name) for part in parts])
            assert torch.equal(together, getattr(whole, name)), f"{name} after turn {turn}, seed {SEED}"
        for name in ("obs", "actions", "rewards", "terminated") * (turn % 8 == 7):  # the buffers hold 8 turns
            rows = [getattr(part.buffer, name) for part in parts]
            together = torch.cat([row[:, :matches] for row in rows] + [row[:, matches:] for row in rows], 1)
            assert torch.equal(together, getattr(whole.buffer, name)), f"{name} after turn {turn}, seed {SEED}"
        if turn % 100 == 99:
            results, of_parts = whole.pop_results(), [part.pop_results() for part in parts]
            assert torch.equal(sum(of.tally for of in of_parts), results.tally)
            torch.testing.assert_close(sum(of.rewards for of in of_parts), results.rewards)
            tally += results.tally
    past_selves = len(whole.past_self_seats)
    itself = len(whole.opponents) + past_selves
    met = (tally.sum(1) > 0).tolist()
    assert met[:itself] == [True] * itself or turns < 430, "every opponent should have been met"
    assert met[len(whole.opponents) :] == [True] * past_selves + [kind != "plain", False], "the team itself; nobody"
    assert whole.episodes(turn + 1) == parts[0].episodes(turn + 1)


def test_ranks_never_play_the_same_match() -> None:
    parts = [started(a_rollout(4, seed=SEED, rank=rank, world=3)) for rank in range(3)]
    actor, played = WholeNumbers(FEATURES, SEED), Counter()
    for rollout in parts:
        rollout.set_mix({"level0": 1.0})
    for _ in range(2 * TURNS):
        for rollout in parts:
            before = rollout.arena.numbers.clone()
            rollout.play_turn(actor)
            played.update(before[rollout.arena.numbers != before].tolist())
    assert len(played) == 24
    assert set(played.values()) == {1}


# --- colours, starts, episodes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("matches", "rank", "world"), [(2, 0, 1), (10, 0, 1), (10, 1, 2), (256, 2, 4)])
def test_half_of_the_matches_are_played_as_red_and_half_as_blue(matches, rank, world) -> None:
    rollout = a_rollout(matches, rank=rank, world=world)
    match, snake = rollout.seats // SNAKES, rollout.seats % SNAKES
    assert match.tolist() == [b for b in range(matches) for _ in range(TEAM)]
    red = (snake < TEAM).view(matches, TEAM)
    assert (red.all(1) | ~red.any(1)).all(), "one team is one colour"
    assert int(red[:, 0].sum()) == matches // 2
    assert (snake.view(matches, TEAM) % TEAM == torch.arange(TEAM)).all()


@pytest.mark.parametrize("matches", [2, 30, 400])
def test_starts_are_spread_over_a_match(matches) -> None:
    rollout = started(a_rollout(matches, turns=4, seed=SEED))
    turns = rollout.arena.state[:, TURN].tolist()
    assert sorted(turns, reverse=True) == [TURNS - 1 - slot * TURNS // matches for slot in range(matches)]
    assert not rollout.arena.state[:, OVER].any()
    assert torch.equal(rollout.arena.numbers, torch.arange(matches) + matches), "all went on to their second match"
    assert rollout.buffer.counts.tolist() == [0, 0], "nobody learns from it"
    assert rollout.pop_results().tally.sum() == 0


@given(turns=st.integers(0, 3000), matches=st.integers(1, 3000))
def test_finished_episodes_are_those_of_staggered_slots(turns, matches) -> None:
    """The i-th slot to end ends its first match after i * 200 // slots + 1 turns and another one every 200."""
    first = np.arange(matches) * TURNS // matches + 1
    expected = int(np.where(turns >= first, 1 + (turns - first) // TURNS, 0).sum())
    assert Rollout.episodes(SimpleNamespace(all_matches=matches), turns) == expected


@pytest.mark.parametrize("matches", [2, 14, 256])
def test_episodes_without_asking_are_those_that_were_tallied(matches) -> None:
    rollout = started(a_rollout(matches, turns=4, seed=SEED))
    rollout.set_mix({"level0": 0.5, "level1": 0.5})
    actor, tallied = WholeNumbers(FEATURES, SEED), 0
    for turn in range(450):
        rollout.play_turn(actor)
        tallied += int(rollout.pop_results().tally.sum())
        assert rollout.episodes(turn + 1) == tallied, f"turn {turn}, seed {SEED}"


def test_a_match_that_has_begun_when_learning_begins_counts_all_its_rewards() -> None:
    rollout = started(a_rollout(40, turns=4, seed=SEED, reward=RewardConfig(preset="score")))
    rollout.set_mix({"level1": 1.0})
    for _ in range(60):
        rollout.play_turn(WholeNumbers(FEATURES, SEED))
    results = rollout.pop_results()
    assert results.rewards.sum() == results.lengths[0] - 12 * TEAM * START_LENGTH, "12 matches have ended"


def test_results_are_given_once() -> None:
    rollout = started(a_rollout(40, turns=4, seed=SEED))
    rollout.set_mix({"level1": 1.0})
    for _ in range(60):
        rollout.play_turn(WholeNumbers(FEATURES, SEED))
    results = rollout.pop_results()
    assert results.tally.sum() == 12
    assert all(counted.any() for counted in results)
    again = rollout.pop_results()
    assert not any(counted.any() for counted in again)


# --- opponents --------------------------------------------------------------------------------------------------------


def test_a_match_keeps_the_opponent_that_the_schedule_chose_at_its_start() -> None:
    rollout = started(a_rollout(50, turns=4, seed=SEED))
    actor, mix, expected = WholeNumbers(FEATURES, SEED), {}, {}
    met = Counter()
    for turn in range(460):
        if turn in MIXES:
            mix = MIXES[turn]
            rollout.set_mix(mix)
        numbers = rollout.arena.numbers.tolist()
        for number, at in zip(numbers, rollout.arena.state[:, TURN].tolist(), strict=True):
            if at == 0:
                expected[number] = chosen_opponent(mix, SEED, number)
        rollout.play_turn(actor)
        for number, which in zip(numbers, rollout.opponent_id.tolist(), strict=True):
            if number in expected:  # the others were under way at the start
                assert rollout.opponents[which] == expected[number], f"match {number}, turn {turn}, seed {SEED}"
                met[rollout.opponents[which]] += 1
    assert set(met) == {"level0", "level1", "level2"}


def test_an_opponent_that_left_the_mix_finishes_its_matches_and_is_not_asked_again(monkeypatch) -> None:
    rollout = started(a_rollout(20, turns=4, seed=SEED))
    asked = Counter()

    def counted(i, act):
        def call() -> None:
            asked[i] += 1
            act()

        return call

    monkeypatch.setattr(rollout, "_scripted", [counted(i, act) for i, act in enumerate(rollout._scripted)])
    actor = WholeNumbers(FEATURES, SEED)
    rollout.set_mix({"level1": 1.0})
    for _ in range(TURNS):
        rollout.play_turn(actor)
    assert (rollout.opponent_id == 1).all()
    rollout.set_mix({"level2": 1.0})
    for turn in range(2 * TURNS):
        asked.clear()
        rollout.play_turn(actor)
        going_on = set(rollout.opponent_id.tolist())
        assert going_on <= set(asked), f"turn {turn}: nobody moved for {going_on - set(asked)}"
    assert going_on == {2}
    assert set(asked) == {2}, "nobody else is asked any more"


# --- transitions ------------------------------------------------------------------------------------------------------


def slow_reward(config: RewardConfig, lengths, gain, ate, died, over: bool, snake: int) -> float:
    own = range(0, 3) if snake < 3 else range(3, 6)
    foes = range(3, 6) if snake < 3 else range(0, 3)
    lead = np.sign(sum(int(lengths[s]) for s in own) - sum(int(lengths[s]) for s in foes))
    reward = config.own * gain[snake] + config.mates * sum(gain[s] for s in own if s != snake)
    reward += config.eat * ate[snake] - config.die * died[snake] - config.foes * sum(gain[s] for s in foes)
    return reward + config.lead * lead + config.win * lead * over


@pytest.mark.parametrize(
    ("encoder", "both"),
    [("features", ()), ("canonical", ()), ("planes", ()), ("features", (1, 2, 3))],
    ids=["features", "canonical", "planes", "features both"],
)
def test_transitions_are_what_really_happened(encoder, both) -> None:
    """Each turn once more in an arena of its own, one match at a time, from the state before the turn."""
    reward = RewardConfig(own=1.0, mates=0.25, foes=0.5, eat=0.125, die=0.75, lead=0.0625, win=4.0)
    matches, described = 6, encoder_named(encoder)
    rollout = a_rollout(
        MatchAssignment(matches, self_play_both=both), turns=7, seed=SEED, encoder=encoder, reward=reward
    )
    teams = [*range(matches), *both]
    started(rollout, epsilon=0.2)
    buffer, arena, actor = rollout.buffer, rollout.arena, WholeNumbers(described, SEED)
    again = BatchArena(matches, seed=SEED)
    ended, died_at_all, ate_at_all = 0, 0, 0
    ends = [0] * matches
    # As numpy: reading single numbers of tensors takes three times as long.
    kept = {name: getattr(buffer, name).numpy() for name in ("obs", "actions", "rewards", "terminated")}
    state, state_again = arena.state.numpy(), again.state.numpy()
    own = (rollout.seats.view(len(teams), TEAM) % SNAKES).tolist()
    aways = {
        b: torch.tensor([s for s in range(SNAKES) if s not in own[b]], dtype=torch.int32)
        for b in set(range(matches)) - set(both)
    }
    for turn in range(330):
        if turn in MIXES:
            rollout.set_mix(MIXES[turn])
        again.state.copy_(arena.state)
        again.keys.copy_(arena.keys)
        seen = again.observe(encoder).numpy()
        directions = again.state[:, DIRECTION : DIRECTION + SNAKES].tolist()
        rollout.play_turn(actor)

        actions = rollout.board_actions.clone()
        for b, away in aways.items():
            scripted = torch.zeros(matches, SNAKES, dtype=torch.int8)
            loops.act(SCRIPTED[rollout.opponents[rollout.opponent_id[b]]], again, away + b * SNAKES, scripted)
            assert torch.equal(actions[b, away.long()], scripted[b, away.long()]), (
                f"match {b}, turn {turn}, seed {SEED}"
            )
        events = [event.tolist() for event in again.play_turn(actions)]
        taken, at = actions.tolist(), turn % 7
        for g, b in enumerate(teams):
            lengths = state_again[b, LENGTH : LENGTH + SNAKES].tolist()
            ate, died, gain, over = (event[b] for event in events)
            told = [gain, ate, died, over]
            for k, snake in enumerate(own[g]):
                assert np.array_equal(kept["obs"][at, g, k], seen[b, snake]), f"turn {turn}, seed {SEED}"
                orientation = int(seen[b, snake, described.orientation_at]) if described.orientation_at else 0
                local = LOCAL_ACTIONS[orientation, taken[b][snake]]
                assert kept["actions"][at, g, k] == local, f"turn {turn}, seed {SEED}"
                assert taken[b][snake] != directions[b][snake] ^ 1
                assert kept["rewards"][at, g, k] == slow_reward(reward, lengths, *told, snake), (
                    f"turn {turn}, seed {SEED}"
                )
                ate_at_all, died_at_all = ate_at_all + told[1][snake], died_at_all + told[2][snake]
            assert kept["terminated"][at, g] == told[3]
            if told[3]:
                ended += g < matches
                ends[b] += g < matches
                assert state[b, TURN] == 0, "the next match has begun"
            else:
                assert np.array_equal(state[b], state_again[b]), f"match {b}, turn {turn}, seed {SEED}"
    assert min(ended, died_at_all, ate_at_all) >= 8
    for b, g in zip(both, range(matches, len(teams)), strict=True):
        assert sorted([*own[b], *own[g]]) == list(range(SNAKES)), "two teams, one on each side"
    tally = rollout.pop_results().tally.sum(1)
    assert int(tally.sum()) == ended, "one result for a match, whoever learns from it"
    assert int(tally[len(rollout.opponents)]) == sum(of_slot for b, of_slot in enumerate(ends) if b in both)


def test_the_actor_sees_what_is_written_and_its_logits_are_drawn_from() -> None:
    rollout = started(a_rollout(10, turns=5, seed=SEED), epsilon=0.0)
    rollout.set_mix({"level0": 1.0})
    kept = []

    def straight_on(obs: torch.Tensor) -> torch.Tensor:
        kept.append(obs.clone())
        return 1e4 * obs[:, FEATURES.direction_at : FEATURES.direction_at + 4].float()

    before = rollout.arena.state[:, DIRECTION : DIRECTION + SNAKES].clone().flatten()[rollout.seats.long()]
    rollout.play_turn(straight_on)
    assert torch.equal(rollout.buffer.obs[0].flatten(0, 1), kept[0])
    assert torch.equal(rollout.buffer.actions[0].flatten(), before.to(torch.int8))


def test_a_seed_is_a_run_and_another_one_another() -> None:
    def run(seed: int) -> torch.Tensor:
        rollout = started(a_rollout(8, turns=30, seed=seed))
        rollout.set_mix({"level1": 1.0})
        for _ in range(30):
            rollout.play_turn(WholeNumbers(FEATURES, SEED))
        return rollout.buffer.obs

    assert torch.equal(run(5), run(5))
    assert not torch.equal(run(5), run(6))


@pytest.mark.parametrize("turns", [0, 30, 260])
def test_matches_that_were_saved_go_on_identically(turns) -> None:
    """In another rollout, from any point: no opponent and no result is lost, and the first one plays on alike."""
    actor = WholeNumbers(FEATURES, SEED)
    first, second = (a_rollout(12, turns=9, seed=SEED) for _ in range(2))
    started(first)
    for turn in range(turns):
        if turn in MIXES:
            first.set_mix(MIXES[turn])
        first.play_turn(actor)
    second.load_state_dict(first.state_dict())
    second.buffer.load_state_dict(on_host(first.buffer.written()))
    for rollout in (first, second):
        rollout.set_mix({"level1": 0.3, "level2": 0.7})
        rollout.epsilon.fill_(0.1)
    for turn in range(260):
        for rollout in (first, second):
            rollout.play_turn(actor)
        assert torch.equal(first.arena.state, second.arena.state), f"{turn} turns later, seed {SEED}"
        assert torch.equal(first.opponent_id, second.opponent_id), f"{turn} turns later, seed {SEED}"
        for name in ("obs", "actions", "rewards", "terminated", "counts"):
            assert torch.equal(getattr(first.buffer, name), getattr(second.buffer, name)), f"{name}, {turn} turns later"
    for mine, its in zip(first.pop_results(), second.pop_results(), strict=True):
        assert torch.equal(mine, its)

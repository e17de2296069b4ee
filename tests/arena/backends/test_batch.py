"""BatchArena's manners: what it refuses, in which words, and that refusing changes nothing."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from helpers.boards import board, crowded, play

from arena import ArenaError, BatchArena
from arena.rules import DOWN, LEFT, MATCH_BYTES, RIGHT, UP

SEED = 3


@pytest.fixture
def arena() -> BatchArena:
    made = BatchArena(4, seed=SEED)
    made.start()
    return made


def snapshot(arena: BatchArena) -> bytes:
    return b"".join(t.numpy().tobytes() for t in (arena.state, arena.keys, arena.numbers))


def refuses(arena: BatchArena | None, word: str, call, *arguments: Any, **named: Any) -> None:
    """The call raises ArenaError with one line that holds the word, and the arena is as it was."""
    before = snapshot(arena) if arena else b""
    with pytest.raises(ArenaError) as caught:
        call(*arguments, **named)
    message = str(caught.value)
    assert word in message
    assert "\n" not in message
    if arena:
        assert snapshot(arena) == before


def test_arena_errors_are_value_errors() -> None:
    assert issubclass(ArenaError, ValueError)


# --- actions --------------------------------------------------------------------------------------------------------

ACTIONS = torch.zeros(4, 6, dtype=torch.int64)
BAD_ACTIONS = {
    "a list": ACTIONS.tolist(),
    "a numpy array": ACTIONS.numpy(),
    "nothing": None,
    "float32": ACTIONS.float(),
    "float64": ACTIONS.double(),
    "bool": ACTIONS.bool(),
    "complex": ACTIONS.to(torch.complex64),
    "too few matches": ACTIONS[:3],
    "too many matches": torch.zeros(5, 6, dtype=torch.int64),
    "five snakes": ACTIONS[:, :5],
    "transposed": ACTIONS.t(),
    "flat": ACTIONS.flatten(),
    "one-hot": torch.zeros(4, 6, 4, dtype=torch.int64),
    "another device": torch.zeros(4, 6, dtype=torch.int64, device="meta"),
}


@pytest.mark.parametrize("what", BAD_ACTIONS)
def test_actions_that_are_no_integer_tensor_of_the_right_shape_are_refused(arena, what) -> None:
    refuses(arena, "actions", arena.play_turn, BAD_ACTIONS[what])


@pytest.mark.parametrize("value", [-1, 4, 5, 127, 255, 256, 259, -256, 2**31, 2**32, 2**40, -(2**40), 2**62])
def test_moves_outside_0_to_3_are_refused_and_named(arena, value) -> None:
    actions = ACTIONS.clone()
    actions[2, 3] = value
    refuses(arena, "snake 3 in match 2", arena.play_turn, actions)


@pytest.mark.parametrize(
    ("dtype", "value"), [(torch.uint8, 4), (torch.uint8, 255), (torch.int8, -1), (torch.int16, 256), (torch.int32, 512)]
)
def test_moves_outside_0_to_3_are_refused_in_every_integer_type(arena, dtype, value) -> None:
    actions = torch.zeros(4, 6, dtype=dtype)
    actions[1, 5] = value
    refuses(arena, "snake 5 in match 1", arena.play_turn, actions)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.uint8])
def test_every_integer_type_plays_the_same(arena, dtype) -> None:
    other = BatchArena(4, seed=SEED)
    other.start()
    moves = torch.from_numpy(np.random.default_rng(SEED).integers(0, 4, (10, 4, 6)))
    for turn in moves:
        arena.play_turn(turn)
        other.play_turn(turn.to(dtype))
    assert snapshot(arena) == snapshot(other)


def test_actions_need_not_be_contiguous(arena) -> None:
    other = BatchArena(4, seed=SEED)
    other.start()
    moves = torch.from_numpy(np.random.default_rng(SEED).integers(0, 4, (6, 4)))
    arena.play_turn(moves.t())
    other.play_turn(moves.t().contiguous())
    assert snapshot(arena) == snapshot(other)


def test_the_callers_actions_are_left_alone(arena) -> None:
    moves = torch.from_numpy(np.random.default_rng(SEED).integers(0, 4, (4, 6)))
    kept = moves.clone()
    arena.play_turn(moves)
    assert torch.equal(moves, kept)


# --- masks, seats, out, encoders ------------------------------------------------------------------------------------

BAD_MASKS = {
    "a list": [True] * 4,
    "a number": 1,
    "a numpy array": np.ones(4, bool),
    "integers": torch.ones(4, dtype=torch.int64),
    "too short": torch.ones(3, dtype=torch.bool),
    "two dimensions": torch.ones(4, 1, dtype=torch.bool),
    "another device": torch.ones(4, dtype=torch.bool, device="meta"),
}


@pytest.mark.parametrize("what", BAD_MASKS)
def test_masks_that_do_not_fit_are_refused(arena, what) -> None:
    refuses(arena, "mask", arena.start, BAD_MASKS[what])


BAD_SEATS = {
    "a list": [0, 1],
    "a number": 3,
    "a numpy array": np.zeros(2, np.int32),
    "int64": torch.zeros(2, dtype=torch.int64),
    "two dimensions": torch.zeros(2, 2, dtype=torch.int32),
    "no dimension": torch.tensor(3, dtype=torch.int32),
    "past the end": torch.tensor([0, 24], dtype=torch.int32),
    "negative": torch.tensor([0, -1], dtype=torch.int32),
    "another device": torch.zeros(2, dtype=torch.int32, device="meta"),
}


@pytest.mark.parametrize("what", BAD_SEATS)
def test_seats_that_do_not_exist_are_refused(arena, what) -> None:
    refuses(arena, "seats", arena.observe, "features", seats=BAD_SEATS[what])


BAD_OUTS = {
    "a numpy array": np.zeros((24, 80), np.int8),
    "a word": "x",
    "another type": torch.zeros(24, 80, dtype=torch.uint8),
    "floats": torch.zeros(24, 80),
    "too small": torch.zeros(23, 80, dtype=torch.int8),
    "not contiguous": torch.zeros(80, 24, dtype=torch.int8).t(),
    "another device": torch.zeros(24, 80, dtype=torch.int8, device="meta"),
}


@pytest.mark.parametrize("what", BAD_OUTS)
def test_tensors_that_cannot_take_the_observation_are_refused(arena, what) -> None:
    refuses(arena, "out", arena.observe, "features", out=BAD_OUTS[what])


@pytest.mark.parametrize("name", ["Features", "", "pixels", None, 3, ["features"]])
def test_unknown_encoders_are_refused_with_the_known_ones_named(arena, name) -> None:
    refuses(arena, "known: canonical, egocentric, features, planes, tactical, tactical_board", arena.observe, name)


# --- making an arena ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("matches", [0, -1, 1.0, "4", None, True])
def test_bad_numbers_of_matches_are_refused(matches) -> None:
    refuses(None, "matches", BatchArena, matches)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "1", None, True])
def test_bad_seeds_are_refused(seed) -> None:
    refuses(None, "seed", BatchArena, 1, seed=seed)


@pytest.mark.parametrize("first", [-1, 1.5, "1", None, 2**63])
def test_bad_first_matches_are_refused(first) -> None:
    refuses(None, "first_match", BatchArena, 1, first_match=first)


@pytest.mark.parametrize("stride", [-1, 1.5, "1"])
def test_bad_strides_are_refused(stride) -> None:
    refuses(None, "stride", BatchArena, 1, stride=stride)


@pytest.mark.parametrize("seed", [0, 2**32, 2**63 - 1])
def test_every_seed_in_range_starts(seed) -> None:
    made = BatchArena(2, seed=seed)
    made.start()
    assert len(made.get_match(1)["beans"]) == 5


@pytest.mark.parametrize("device", ["meta", "mps", "gpu", "", "cuda:-1", None, 1.5])
def test_unknown_devices_are_refused(device) -> None:
    refuses(None, "device", BatchArena, 1, device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7", torch.device("cuda")])
def test_cuda_where_there_is_none_is_refused(device) -> None:
    refuses(None, "CUDA", BatchArena, 1, device=device)


@pytest.mark.parametrize("matches", [10**12, 10**30])
def test_a_batch_that_does_not_fit_in_memory_is_refused_before_it_is_made(matches) -> None:
    refuses(None, "GiB", BatchArena, matches)


def test_a_match_takes_at_most_2_kilobytes() -> None:
    made = BatchArena(64)
    tensors = {id(t): t for t in (*vars(made).values(), *made.events) if isinstance(t, torch.Tensor)}
    assert sum(t.numel() * t.element_size() for t in tensors.values()) / 64 <= 2048


# --- get_match and set_match ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [-1, 4, 1.5, "0", None])
def test_matches_out_of_range_cannot_be_read(arena, index) -> None:
    refuses(arena, "match", arena.get_match, index)


@pytest.mark.parametrize("index", [-1, 4, 1.5, "0", None])
def test_matches_out_of_range_cannot_be_set(arena, index) -> None:
    refuses(arena, "match", arena.set_match, index, board({}))


def change(**fields: Any):
    return lambda match: match.update(fields)


def put(key: str, *path_and_value: Any):
    """Replace one item deep inside a field."""

    def apply(match: dict) -> None:
        *path, last, value = path_and_value
        item = match[key]
        for step in path:
            item = item[step]
        item[last] = value

    return apply


# what is wrong -> (the change that makes it so, a word of the message)
IMPOSSIBLE = {
    "no turn": (lambda m: m.pop("turn"), "turn"),
    "no snakes": (lambda m: m.pop("snakes"), "snakes"),
    "no directions": (lambda m: m.pop("directions"), "directions"),
    "no beans": (lambda m: m.pop("beans"), "beans"),
    "an unknown key": (change(score=0), "score"),
    "turn -1": (change(turn=-1), "turn"),
    "turn 201": (change(turn=201), "turn"),
    "turn 1.0": (change(turn=1.0), "turn"),
    "turn true": (change(turn=True), "turn"),
    "turn none": (change(turn=None), "turn"),
    "turn in words": (change(turn="1"), "turn"),
    "five snakes": (lambda m: m["snakes"].pop(), "snakes"),
    "seven snakes": (lambda m: m["snakes"].append([[3, 3], [3, 4], [3, 5]]), "snakes"),
    "snakes is a number": (change(snakes=6), "snakes"),
    "a snake is none": (put("snakes", 2, None), "snake 2"),
    "a snake of one cell": (put("snakes", 2, [[3, 3]]), "snake 2"),
    "a snake of two cells": (put("snakes", 2, [[3, 3], [3, 4]]), "snake 2"),
    "a row too low": (put("snakes", 1, 0, [10, 0]), "snake 1"),
    "a row too high": (put("snakes", 1, 0, [-1, 0]), "snake 1"),
    "a column too far right": (put("snakes", 1, 0, [0, 20]), "snake 1"),
    "a column too far left": (put("snakes", 1, 0, [0, -1]), "snake 1"),
    "a cell of fractions": (put("snakes", 1, 0, [0.0, 0.5]), "snake 1"),
    "a cell of three numbers": (put("snakes", 1, 0, [0, 0, 0]), "snake 1"),
    "a cell that is a number": (put("snakes", 1, 0, 17), "snake 1"),
    "two snakes on one cell": (put("snakes", 1, 1, [7, 3]), "snake 1"),
    "a head on another's tail": (put("snakes", 1, 0, [7, 2]), "snake 1"),
    "a snake twice on one cell": (put("snakes", 1, [[3, 3], [3, 4], [3, 3]]), "snake 1"),
    "five directions": (lambda m: m["directions"].pop(), "directions"),
    "direction 4": (put("directions", 3, 4), "snake 3"),
    "direction -1": (put("directions", 3, -1), "snake 3"),
    "direction 1.0": (put("directions", 3, 1.0), "snake 3"),
    "direction true": (put("directions", 3, True), "snake 3"),
    "direction none": (put("directions", 3, None), "snake 3"),
    "six beans": (lambda m: m["beans"].append([3, 3]), "beans"),
    "one bean twice": (put("beans", 4, [0, 19]), "bean"),
    "a bean on a body": (put("beans", 4, [7, 3]), "bean"),
    "a bean off the board": (put("beans", 4, [10, 3]), "bean"),
    "beans is none": (change(beans=None), "beans"),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_impossible_matches_are_refused(arena, what) -> None:
    spoil, word = IMPOSSIBLE[what]
    match = copy.deepcopy(board({}))
    spoil(match)
    refuses(arena, word, arena.set_match, 1, match)


@pytest.mark.parametrize("match", [None, [], "match", 3])
def test_what_is_no_dictionary_is_refused(arena, match) -> None:
    refuses(arena, "match", arena.set_match, 1, match)


def test_set_match_leaves_the_callers_dictionary_and_the_other_matches_alone(arena) -> None:
    match = board({})
    kept = copy.deepcopy(match)
    others = [arena.get_match(i) for i in (0, 2, 3)]
    arena.set_match(1, match)
    assert match == kept
    assert [arena.get_match(i) for i in (0, 2, 3)] == others


def test_set_match_takes_tuples_and_numpy_integers(arena) -> None:
    match = board({})
    arena.set_match(0, match | {"turn": np.int64(5), "beans": [tuple(np.array(bean)) for bean in match["beans"]]})
    assert arena.get_match(0) == match | {"turn": 5}


def test_what_get_match_gives_belongs_to_the_caller(arena) -> None:
    arena.get_match(0)["snakes"][0].clear()
    assert len(arena.get_match(0)["snakes"][0]) == 3


def overfull() -> dict:
    """196 cells of snakes: one more than leave room for five beans."""
    match, _ = crowded([(4, 4), (4, 5), (4, 6)], [(4, 4), (4, 5), (4, 6)], LEFT)
    match["snakes"][1].insert(1, match["beans"].pop())
    return match


ENDS = {"200 turns": board({}, turn=200), "an empty snake": board({2: ([], UP)}), "196 cells": overfull()}


@pytest.mark.parametrize("what", ENDS)
def test_a_match_set_to_its_end_is_over(arena, what) -> None:
    arena.set_match(1, ENDS[what])
    events = arena.play_turn(ACTIONS)
    assert bool(events.over[1])
    assert arena.get_match(1) == ENDS[what]


def test_two_tails_may_share_a_cell_only_if_both_are_sure_to_leave_it() -> None:
    """Recorded cases hold two tails on one cell. With a bean beside one of the heads that tail might stay: refused."""
    snakes = {
        0: ([(4, 7), (4, 6), (4, 5)], RIGHT),
        3: ([(2, 5), (3, 5), (4, 5)], UP),
        4: ([(4, 4), (4, 3), (4, 2)], RIGHT),
    }
    after = play(board(snakes, beans=[(9, 5)]))
    assert after.body(3) == [(1, 5), (2, 5), (3, 5)]
    assert not after.died[4]
    for bean in ((1, 5), (4, 8)):
        refuses(None, "both lie on", play, board(snakes, beans=[bean]))


# --- nothing happens by itself --------------------------------------------------------------------------------------


def test_a_copy_plays_the_same_matches_and_leaves_these_alone(arena) -> None:
    moves = torch.randint(4, (30, 4, 6), generator=torch.Generator().manual_seed(SEED))
    for turn in moves[:10]:
        arena.play_turn(turn)
    copied, before = copy.deepcopy(arena), snapshot(arena)
    assert snapshot(copied) == before
    for turn in moves[10:]:
        copied.play_turn(turn)
    copied.start(copied.events.died.any(1))
    assert snapshot(arena) == before
    for turn in moves[10:]:
        arena.play_turn(turn)
    arena.start(arena.events.died.any(1))
    assert snapshot(arena) == snapshot(copied)
    assert all(map(torch.equal, arena.events, copied.events))


def test_nothing_is_played_before_the_start() -> None:
    made = BatchArena(2)
    before = snapshot(made)
    events = made.play_turn(ACTIONS[:2])
    assert bool(events.over.all())
    assert snapshot(made) == before


def test_nothing_restarts_by_itself(arena) -> None:
    generator = np.random.default_rng(SEED)
    for _ in range(210):
        events = arena.play_turn(torch.from_numpy(generator.integers(0, 4, (4, 6))))
    assert bool(events.over.all())
    assert [arena.get_match(i)["turn"] for i in range(4)] == [200] * 4
    assert arena.numbers.tolist() == [0, 1, 2, 3]


def test_start_with_a_mask_starts_those_and_no_others(arena) -> None:
    arena.play_turn(ACTIONS)
    before = [arena.get_match(i) for i in range(4)]
    arena.start(torch.tensor([True, False, False, True]))
    assert [arena.get_match(i)["turn"] for i in range(4)] == [0, 1, 1, 0]
    assert [arena.get_match(i) for i in (1, 2)] == before[1:3]


def test_an_empty_mask_starts_nothing(arena) -> None:
    before = snapshot(arena)
    arena.start(torch.zeros(4, dtype=torch.bool))
    assert snapshot(arena) == before


def test_events_and_observations_have_the_promised_types_and_shapes(arena) -> None:
    events = arena.play_turn(ACTIONS)
    assert [(t.dtype, tuple(t.shape)) for t in events] == [
        (torch.bool, (4, 6)),
        (torch.bool, (4, 6)),
        (torch.int16, (4, 6)),
        (torch.bool, (4,)),
    ]
    assert tuple(arena.observe().shape) == (4, 6, 80)
    assert tuple(arena.observe("planes").shape) == (4, 6, 1208)
    assert tuple(arena.observe("canonical").shape) == (4, 6, 80)
    assert tuple(arena.state.shape) == (4, MATCH_BYTES)


def test_directions_are_numbered_up_down_left_right() -> None:
    assert (UP, DOWN, LEFT, RIGHT) == (0, 1, 2, 3)


def test_the_global_random_generators_are_not_touched() -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    made = BatchArena(4)
    made.start()
    made.play_turn(ACTIONS)
    made.observe()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()

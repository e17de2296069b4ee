"""What the seven scripted opponents do: on drawn boards one behaviour at a time, and in general on positions in play.

How boards are drawn is said in drawn_boards.py; the snake that is asked is always A.
"""

import math
from itertools import pairwise

import pytest
import torch
from helpers.drawn_boards import (
    NO_MOVE,
    STEPS,
    SWAP_TEAMS,
    Positions,
    arena_of,
    beside,
    choices,
    decisions,
    draw,
    every_seat,
    positions_in_play,
    relabelled,
    stored_directions,
)

from arena import BatchArena
from arena.backends.loops import PARALLEL_FROM
from arena.match_dict import to_dict
from arena.rules import COLUMNS, LENGTH, OVER, SNAKES, TURN, TURNS
from opponents.scripted import SCRIPTED

SEED = 11
EVERYONE = tuple(SCRIPTED)
SEEING = EVERYONE[1:]  # who looks at the board
CAREFUL = EVERYONE[2:]  # who looks where it goes
MINDFUL = EVERYONE[3:]  # who reckons with other heads

# --- boards that serve several opponents ------------------------------------------------------------------------------

BODY_IN_THE_WAY = """
    ...v....
    ...v....
    >>Av..*.
    ...v....
    ...D....
"""
NEAREST_BEAN_IS_A_MATES = """
    ......*B..
    .......^..
    *....A.^..
    .....^....
    .....^....
"""
NEAREST_BEAN_IS_A_FOES = NEAREST_BEAN_IS_A_MATES.replace("B", "D")
FOE_MAY_ENTER_THE_BEAN = """
    ........
    >>A*D<<.
    ........
"""
MATE_MAY_ENTER_THE_BEAN = FOE_MAY_ENTER_THE_BEAN.replace("D", "B")
FOE_MAY_ENTER_AHEAD_AND_ABOVE = """
    ...D<<.
    >>A..*.
    .......
"""
ONLY_WAY_IS_CONTESTED = """
    E<<<<<..
    >>A.D<<.
    F<<<<<..
"""
TAIL_IN_THE_WAY = """
    .........
    >>A>>>D.*
    .........
"""
TAIL_OF_A_SNAKE_THAT_MAY_EAT = """
    .........
    >>A>>>D*.
    .........
"""
DEAD_END_WITH_A_BEAN = """
    ...D...
    ...^<..
    >>A*^..
    ...>^..
    ...^...
    ...^...
"""
# The corridor is four cells long; D's body closes it for as long as A could stay in there.
POCKET = """
    ...D......
    ...^<<<<..
    >>A..*.^..
    ^..>>>>^..
    ^..^<<<<<.
    ^.........
"""
# The same cells are taken, but the cell at the corridor's end is a tail: gone long before A gets there.
POCKET_THAT_OPENS = POCKET.replace("^..>>>>^..", "^..>>>>E..")
# Twelve cells, closed for as long as A could walk in there: enough for a snake of three.
POCKET_BIG_ENOUGH = """
    ...D......
    ...^<<<<<<
    >>A...*..^
    >>v......^
    ^.>>>>>>>^
"""
# The same pocket for a snake of nine.
POCKET_TOO_SMALL_FOR_NINE = """
    v.........
    v.........
    v.........
    v.........
    v..D......
    v..^<<<<<<
    >>A...*..^
    >>v......^
    ^.>>>>>>>^
"""
FOE_MAY_ENTER_THE_BEAN_AND_A_IS_LONG = """
    ........
    >>A*D<<.
    ^.......
    ^<<<....
"""
FOES_TO_THE_RIGHT = """
    ..>>>>E...
    ...A......
    ...^......
    ...^....D<
    .........^
"""
FOES_TO_THE_LEFT = """
    ...E<<<<..
    ......A...
    ......^...
    >D....^...
    ^.........
"""

CASES = [
    # level1: straight for the nearest bean
    ("goes for the nearer of two beans", ("level1",), ".*....... ......... >>A...*..", "u"),
    ("goes for the nearer bean ahead", ("level1",), "*........ ......... >>A..*...", "r"),
    ("goes for a bean above", SEEING, "..*.. ..... ..... >>A.. .....", "u"),
    ("goes for a bean below", SEEING, "..... >>A.. ..... ..... ..*..", "d"),
    ("goes on to a bean ahead", SEEING, "....... >>A..*. .......", "r"),
    ("turns towards a bean behind and above", SEEING, ".*..... ....... ...>>A. .......", "u"),
    ("runs into a body for a bean behind it", ("level1",), BODY_IN_THE_WAY, "r"),
    ("does not leave a bean to a nearer mate", ("level1",), NEAREST_BEAN_IS_A_MATES, "ur"),
    # level2: open eyes, shares with mates
    ("goes around a body", CAREFUL, BODY_IN_THE_WAY, "ud"),
    ("leaves a bean to a nearer mate and takes another", ("level2", "level3", "level4"), NEAREST_BEAN_IS_A_MATES, "l"),
    ("does not leave a bean to a nearer foe", ("level2", "level3"), NEAREST_BEAN_IS_A_FOES, "ur"),
    ("takes a bean that another head may enter", ("level1", "level2"), FOE_MAY_ENTER_THE_BEAN, "r"),
    ("does not follow a tail", ("level2",), TAIL_IN_THE_WAY, "ud"),
    ("walks into a dead end for a bean", ("level1", "level2"), DEAD_END_WITH_A_BEAN, "r"),
    # level3: minds its head
    ("keeps off a cell that a foe may enter", MINDFUL, FOE_MAY_ENTER_THE_BEAN, "ud"),
    ("keeps off both cells that a foe may enter", ("level3", "level4", "evasive"), FOE_MAY_ENTER_AHEAD_AND_ABOVE, "d"),
    ("keeps off a cell that a mate may enter", MINDFUL, MATE_MAY_ENTER_THE_BEAN, "ud"),
    ("does not bite a mate", MINDFUL, BODY_IN_THE_WAY.replace("D", "B"), "ud"),
    ("takes the contested cell when there is no other way", CAREFUL, ONLY_WAY_IS_CONTESTED, "r"),
    ("follows a tail into the cell it leaves", MINDFUL, TAIL_IN_THE_WAY, "r"),
    ("does not ask whether the owner of a tail may eat", ("level3",), TAIL_OF_A_SNAKE_THAT_MAY_EAT, "r"),
    ("keeps out of a dead end, bean or not", MINDFUL, DEAD_END_WITH_A_BEAN, "ud"),
    # level4: beans it can win, and care
    ("leaves a bean to a nearer foe when another can be won", ("level4",), NEAREST_BEAN_IS_A_FOES, "l"),
    ("lets a foe pass when it is long", MINDFUL[1:], FOE_MAY_ENTER_THE_BEAN_AND_A_IS_LONG, "ud"),
    ("keeps off the tail of a snake that may eat", MINDFUL[1:], TAIL_OF_A_SNAKE_THAT_MAY_EAT, "ud"),
    # the searching ones
    ("walks into any pocket for a bean", ("level3",), POCKET, "r"),
    ("keeps out of a pocket too small for its body, bean or not", ("evasive", "territory"), POCKET, "ud"),
    ("goes through a pocket that will open in time", ("evasive",), POCKET_THAT_OPENS, "r"),
    ("goes for the bean in a pocket that is big enough", ("evasive",), POCKET_BIG_ENOUGH, "r"),
    ("keeps out of the same pocket when it is longer", ("evasive",), POCKET_TOO_SMALL_FOR_NINE, "u"),
    ("leaves a bean to a nearer mate", ("territory",), NEAREST_BEAN_IS_A_MATES, "l"),
    ("turns to the ground that it reaches first", ("territory",), FOES_TO_THE_RIGHT, "l"),
    ("turns to the ground that it reaches first, mirrored", ("territory",), FOES_TO_THE_LEFT, "r"),
]


def spread(cases: list[tuple]) -> list:
    return [
        pytest.param(name, drawing, allowed, id=f"{name} {sentence}")
        for sentence, names, drawing, allowed in cases
        for name in names
    ]


@pytest.mark.parametrize(("name", "drawing", "allowed"), spread(CASES))
def test_on_a_drawn_board(name, drawing, allowed) -> None:
    found = choices(name, drawing)
    assert set(found.values()) <= set(allowed), f"{name} {found}, allowed: {allowed}\n{drawing}"


@pytest.mark.parametrize("name", SEEING[:4])
def test_turns_aside_for_a_bean_straight_behind(name) -> None:
    drawing = "....... .*.>>A. ......."
    assert set(choices(name, drawing).values()) <= set("ud"), drawing


# --- level0 and noise -------------------------------------------------------------------------------------------------


def assert_uniform(counts: torch.Tensor, what: str) -> None:
    """Chi-square test of three outcomes against equal shares at p = 1e-6: two degrees of freedom, so 2 ln(1e6)."""
    expected = float(counts.sum()) / len(counts)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert len(counts) == 3
    assert statistic < 2 * math.log(1e6), f"{what}: {counts.tolist()}, chi-square {statistic:.1f}"


def test_level0_spreads_evenly_over_the_three_moves_that_are_no_reversal() -> None:
    arena = BatchArena(20_000, seed=SEED)
    arena.start()
    moves, directions = decisions("level0", arena), stored_directions(arena)
    for direction in range(4):
        counts = torch.bincount(moves[directions == direction].long(), minlength=4)
        assert counts[direction ^ 1] == 0
        others = [move for move in range(4) if move != direction ^ 1]
        assert_uniform(counts[others], f"direction {direction}, seed {SEED}")
    for snake in range(SNAKES):
        back = directions[:, snake] ^ 1
        ranks = moves[:, snake] - (moves[:, snake] > back).to(torch.int8)
        assert_uniform(torch.bincount(ranks.long(), minlength=3), f"snake {snake}, seed {SEED}")


def test_level0_draws_anew_for_each_match_turn_and_snake() -> None:
    arena = BatchArena(2000, seed=SEED)
    arena.start()
    arena.state.copy_(arena.state[0].clone().expand_as(arena.state))  # all look alike, all go the same way
    moves = decisions("level0", arena)
    arena.state[:, TURN] += 1
    next_turn = decisions("level0", arena)
    pairs = {
        "two snakes with one direction": same_direction_pair(arena, moves),
        "two turns": (moves[:, 0], next_turn[:, 0]),
        "two matches": (moves[:-1, 0], moves[1:, 0]),
    }
    for what, (a, b) in pairs.items():
        share = float((a == b).float().mean())
        # A third by chance; five standard deviations of 2000 draws are 0.053.
        assert abs(share - 1 / 3) < 0.06, f"{what}: equal in {share:.3f}, seed {SEED}"


def same_direction_pair(arena: BatchArena, moves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    directions = stored_directions(arena)[0].tolist()
    a, b = next((a, b) for a in range(SNAKES) for b in range(a) if directions[a] == directions[b])
    return moves[:, a], moves[:, b]


def test_level0_asks_nothing_but_key_turn_snake_and_direction() -> None:
    """The same key and turn on quite another board, where the snakes go the same ways."""
    one = arena_of(draw("....... >>A.... ......."), seed=SEED)
    other = arena_of(draw(">>>>A.. ^<<<<<. ...*..."), seed=SEED)
    assert torch.equal(stored_directions(one), stored_directions(other))
    assert torch.equal(decisions("level0", one), decisions("level0", other))


@pytest.fixture(scope="module")
def in_play() -> Positions:
    return positions_in_play(SEED)


@pytest.mark.parametrize("name", SEEING)
def test_without_noise_nothing_is_left_to_chance(name, in_play) -> None:
    """Other keys are other random numbers."""
    arena = in_play.arena()
    moves = decisions(name, arena, noise=0.0)
    arena.keys.add_(12345)
    assert torch.equal(decisions(name, arena), moves), f"seed {SEED}"


@pytest.mark.parametrize("name", EVERYONE)
def test_with_full_noise_everyone_is_level0(name, in_play) -> None:
    arena = in_play.arena()
    assert torch.equal(decisions(name, arena, noise=1.0), decisions("level0", arena)), f"seed {SEED}"


@pytest.mark.parametrize("name", SEEING)
def test_noise_replaces_that_share_of_the_moves_by_random_ones(name, in_play) -> None:
    arena = in_play.arena()
    plain, random, noisy = decisions(name, arena), decisions("level0", arena), decisions(name, arena, noise=0.3)
    assert ((noisy == plain) | (noisy == random)).all()
    differ = plain != random  # elsewhere nobody can tell
    count = int(differ.sum())
    assert count > 2000
    share = float((noisy == random)[differ].float().mean())
    bound = 5 * math.sqrt(0.3 * 0.7 / count)
    assert abs(share - 0.3) < bound, f"{share:.3f} of {count} moves, allowed 0.3 +- {bound:.3f}, seed {SEED}"


def test_whether_a_move_is_random_says_nothing_about_which_one_it_is(in_play) -> None:
    arena = in_play.arena()
    random = decisions("level0", arena)
    was_noisy = (decisions("level4", arena, noise=0.5) == random) & (decisions("level4", arena) != random)
    counts = torch.bincount(((random - (random > (stored_directions(arena) ^ 1)).to(torch.int8))[was_noisy]).long())
    # Were the two drawn with one number, the low half would always pick the same moves.
    assert len(counts) == 3
    assert int(counts.min()) > int(counts.sum()) // 6, f"{counts.tolist()}, seed {SEED}"


# --- what holds for all of them on positions in play ------------------------------------------------------------------


def test_the_positions_in_play_hold_what_the_tests_on_them_need(in_play) -> None:
    """Thousands of snakes, long ones, and respawned ones whose stored direction is not where their neck points."""
    matches = [to_dict(row) for row in in_play.state.numpy()]
    bodies = [(m["snakes"][s], m["directions"][s]) for m in matches for s in range(SNAKES)]
    assert len(bodies) > 5000
    assert sum(len(body) >= 15 for body, _ in bodies) > 100
    into_neck = sum(beside(tuple(body[0]), direction) == tuple(body[1]) for body, direction in bodies)
    torn = sum(not adjacent(body[1], body[2]) for body, _ in bodies)
    assert into_neck > 0, f"seed {SEED}"
    assert torn > 0, f"seed {SEED}"


def adjacent(a: list[int], b: list[int]) -> bool:
    return tuple(b) in {beside(tuple(a), direction) for direction in STEPS}


@pytest.mark.parametrize("name", EVERYONE)
def test_never_asks_for_a_reversal_or_for_no_move_at_all(name, in_play) -> None:
    arena = in_play.arena()
    moves = decisions(name, arena)
    assert bool(((moves >= 0) & (moves <= 3)).all()), f"seed {SEED}"
    reversals = (moves == stored_directions(arena) ^ 1).nonzero().tolist()
    assert reversals == [], f"match, snake: {reversals[:5]}, seed {SEED}"


@pytest.fixture(scope="module")
def cells_ahead(in_play) -> torch.Tensor:
    """What lies on the cell of each move, [N, 6, 4]: 0 free or bean, 1 a tail, 2 a segment that is sure to stay."""
    found = []
    for row in in_play.state.numpy():
        match = to_dict(row)
        ahead = {}
        for body in match["snakes"]:
            ahead |= {tuple(cell): 2 for cell in body[:-1]}
        ahead = {tuple(body[-1]): 1 for body in match["snakes"]} | ahead
        heads = [tuple(body[0]) for body in match["snakes"]]
        found.append([[ahead.get(beside(head, move), 0) for move in range(4)] for head in heads])
    return torch.tensor(found)


@pytest.mark.parametrize("name", CAREFUL)
def test_never_runs_into_a_body_that_is_sure_to_stay_when_a_free_cell_is_beside(name, in_play, cells_ahead) -> None:
    arena = in_play.arena()
    moves = decisions(name, arena).long()
    back = (stored_directions(arena) ^ 1).long()
    escape = (cells_ahead == 0).scatter(2, back[..., None], False).any(dim=2)
    into = cells_ahead.gather(2, moves[..., None])[..., 0]
    wrong = (escape & (into == 2)).nonzero().tolist()
    assert int((~escape).sum()) > 10, "some snakes should be hemmed in"
    assert wrong == [], f"match, snake: {wrong[:5]} of {len(wrong)}, seed {SEED}; {arena.get_match(wrong[0][0])}"


@pytest.mark.parametrize("name", EVERYONE)
def test_the_same_position_gives_the_same_moves_however_it_is_asked(name, in_play) -> None:
    arena = in_play.arena()
    whole = decisions(name, arena)
    assert torch.equal(decisions(name, arena), whole), "asked again"

    generator = torch.Generator().manual_seed(SEED)
    seats = every_seat(arena.matches)
    shuffled = seats[torch.randperm(len(seats), generator=generator)]
    assert torch.equal(decisions(name, arena, shuffled), whole), f"seats in another order, seed {SEED}"

    for some in (shuffled[:100], shuffled[: PARALLEL_FROM * SNAKES + 7], seats[5:6], seats[:0]):
        moves = decisions(name, arena, some)
        asked = torch.zeros(whole.numel(), dtype=torch.bool)
        asked[some.long()] = True
        expected = torch.where(asked.view_as(whole), whole, NO_MOVE)
        assert torch.equal(moves, expected), f"{len(some)} seats, seed {SEED}"

    chosen = torch.randperm(arena.matches, generator=generator)[:7]
    assert torch.equal(decisions(name, in_play.arena(chosen)), whole[chosen]), f"seven matches, seed {SEED}"
    for i in chosen.tolist():
        alone = decisions(name, in_play.arena(slice(i, i + 1)))
        assert torch.equal(alone, whole[i : i + 1]), f"match {i} alone, seed {SEED}"


@pytest.mark.parametrize("name", EVERYONE)
def test_asking_does_not_touch_the_match(name, in_play) -> None:
    arena = in_play.arena()
    decisions(name, arena, noise=0.3)
    assert torch.equal(arena.state, in_play.state)
    assert torch.equal(arena.keys, in_play.keys)


@pytest.mark.parametrize("matches", [40, 200])
@pytest.mark.parametrize("name", EVERYONE)
def test_only_the_matches_that_are_ones_own_get_moves(name, matches, in_play) -> None:
    """Small batches go through the serial loop, large ones through the parallel one."""
    arena = in_play.arena(slice(0, matches))
    which = (torch.arange(matches) % 3).to(torch.uint8)
    own = (which == 2)[:, None].expand(-1, SNAKES)
    whole = decisions(name, arena)
    assert torch.equal(decisions(name, arena, which=which, mine=2), torch.where(own, whole, NO_MOVE))
    nobody = decisions(name, arena, which=which, mine=7)
    assert bool((nobody == NO_MOVE).all())


def asked_by_other_names(name: str, in_play: Positions, names: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Moves on some positions and, by the old names, on the same boards with the snakes renamed."""
    chosen = in_play.arena(slice(0, None, 5))
    renamed = arena_of(*(relabelled(to_dict(row), names) for row in chosen.state.numpy()))
    moves = decisions(name, renamed)
    back = torch.empty_like(moves)
    back[:, list(names)] = moves
    return decisions(name, chosen), back


@pytest.mark.parametrize("name", SEEING)
def test_both_teams_play_alike(name, in_play) -> None:
    one, other = asked_by_other_names(name, in_play, SWAP_TEAMS)
    assert torch.equal(one, other), f"match, snake: {(one != other).nonzero().tolist()[:5]}, seed {SEED}"


@pytest.mark.parametrize("name", SEEING)
def test_the_number_within_a_team_does_not_matter(name, in_play) -> None:
    one, other = asked_by_other_names(name, in_play, (1, 2, 0, 5, 3, 4))
    assert torch.equal(one, other), f"match, snake: {(one != other).nonzero().tolist()[:5]}, seed {SEED}"


# --- odd matches ------------------------------------------------------------------------------------------------------


def odd_matches() -> list[dict]:
    plain = draw("....... >>A..*. .......")
    empty = {"turn": 3, "snakes": [[]] * SNAKES, "directions": [0, 1, 2, 3, 0, 1], "beans": []}
    one_left = plain | {"snakes": [plain["snakes"][0], *[[]] * 5]}
    without_beans = plain | {"beans": []}
    at_the_end = plain | {"turn": TURNS}
    torn = draw("....... >>A..*. .......")
    torn["snakes"][3] = [[8, 2], [9, 2], [7, 2]]  # a respawn with the head in the middle
    two_tails = draw(">>A.D<<")
    two_tails["snakes"][3][-1] = two_tails["snakes"][0][-1]  # as recorded games have it, see match_dict
    full = full_board()
    return [plain, empty, one_left, without_beans, at_the_end, torn, two_tails, full]


def full_board() -> dict:
    """Not one free cell: each snake lies over a sixth of the board, row by row to and fro."""
    path = [[row, column if row % 2 == 0 else COLUMNS - 1 - column] for row in range(10) for column in range(COLUMNS)]
    cuts = [len(path) * i // SNAKES for i in range(SNAKES + 1)]
    bodies = [path[a:b] for a, b in pairwise(cuts)]
    return {"turn": 150, "snakes": bodies, "directions": [0, 1, 2, 3, 0, 1], "beans": []}


@pytest.mark.parametrize("name", EVERYONE)
def test_odd_matches_get_moves_that_are_no_reversals(name) -> None:
    arena = arena_of(*odd_matches())
    assert arena.state[:, OVER].tolist() == [0, 1, 1, 0, 1, 0, 0, 1]
    moves = decisions(name, arena)
    assert bool(((moves >= 0) & (moves <= 3)).all())
    assert not bool((moves == stored_directions(arena) ^ 1).any())


@pytest.mark.parametrize("name", EVERYONE)
def test_an_arena_that_was_never_started_gets_moves_too(name) -> None:
    arena = BatchArena(3)
    assert int(arena.state[:, LENGTH : LENGTH + SNAKES].sum()) == 0
    moves = decisions(name, arena)
    assert bool(((moves >= 0) & (moves <= 3)).all())


@pytest.mark.parametrize("name", SEEING[:-1])  # territory goes where it reaches most cells
def test_without_beans_it_goes_straight_on_where_nothing_is_in_the_way(name) -> None:
    found = choices(name, "....... >>A.... .......")
    assert set(found.values()) == {"r"}, found

"""What a snake sees, against a slow reference that is written from the match dictionary alone."""

from itertools import chain, product

import numpy as np
import pytest
import torch
from helpers.boards import STEPS, board, play
from helpers.movers import semi_greedy_moves
from helpers.recorded import steps

from arena import BatchArena
from arena.encoders import ENCODERS
from arena.rules import DOWN, LEFT, RIGHT, UP

SEED = 31
MATCHES = 24
NEARBY = [(-2, 0), (-1, -1), (-1, 0), (-1, 1), (0, -2), (0, -1), (0, 1), (0, 2), (1, -1), (1, 0), (1, 1), (2, 0)]


def flat(entries: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(entries))


def short(steps_forward: int, size: int) -> int:
    """The short way round; exactly opposite counts as backwards."""
    return (steps_forward + size // 2) % size - size // 2


def offset(to, origin) -> tuple[int, int]:
    return short(to[0] - origin[0], 10), short(to[1] - origin[1], 20)


def distance(a, b) -> int:
    return sum(abs(x) for x in offset(a, b))


def waits(match: dict) -> dict[tuple, int]:
    """Turns until each body cell is free: 1 for a tail."""
    return {tuple(cell): len(body) - k for body in match["snakes"] for k, cell in enumerate(body)}


def owners(match: dict) -> dict[tuple, int]:
    """The snake on each body cell; of two tails on one cell the first."""
    return {tuple(cell): i for i in reversed(range(6)) for cell in match["snakes"][i]}


def sides(snake: int) -> tuple[list[int], list[int]]:
    team = [0, 1, 2] if snake < 3 else [3, 4, 5]
    return [i for i in team if i != snake], [i for i in range(6) if i not in team]


def as_it_is(rows: int, columns: int) -> tuple[int, int]:
    return rows, columns


# By the direction of a snake: the local vector of a vector on the board, where the board is turned until it looks up.
LOOKING_UP = {
    UP: as_it_is,
    DOWN: lambda rows, columns: (-rows, -columns),
    LEFT: lambda rows, columns: (columns, -rows),
    RIGHT: lambda rows, columns: (-columns, rows),
}


def expected_features(match: dict, snake: int, local=as_it_is) -> list[int]:
    """The features of a snake. `local` turns a vector on the board, in rows and columns, into the one that it sees."""
    snakes, directions = match["snakes"], match["directions"]
    mates, foes = sides(snake)
    head = snakes[snake][0]
    wait = waits(match)
    around = {local(r, c): ((head[0] + r) % 10, (head[1] + c) % 20) for r, c in NEARBY}
    row = [min(8, wait.get(around[near], 0)) for near in NEARBY]
    row += [int(local(*STEPS[directions[snake]]) == step) for step in STEPS.values()]
    for others in (foes, mates):
        for step in STEPS.values():
            row.append(sum(distance(snakes[i][0], around[step]) == 1 for i in others))
    lead = sum(len(snakes[i]) for i in (snake, *mates)) - sum(len(snakes[i]) for i in foes)
    row += [min(127, len(snakes[snake])), (200 - match["turn"]) // 2, max(-127, min(127, lead)), 0]
    seen = sorted(expected_beans(match, snake, local), key=nearest_first)
    seen += [[0, 0, -15, -15]] * (5 - len(seen))
    row += flat(seen)
    for others in (mates, foes):
        ways = [[*local(*offset(snakes[i][0], head)), min(127, len(snakes[i]))] for i in others]
        entries = [[*way, *local(*STEPS[directions[i]])] for way, i in zip(ways, others, strict=True)]
        row += flat(sorted(entries, key=nearest_first))
    return row + [0] * 7


def expected_beans(match: dict, snake: int, local) -> list[list[int]]:
    head, entries = match["snakes"][snake][0], []
    for bean in match["beans"]:
        own = distance(bean, head)
        foe, mate = (min(distance(bean, match["snakes"][i][0]) for i in others) for others in sides(snake)[::-1])
        entries.append([*local(*offset(bean, head)), foe - own, mate - own])
    return entries


def expected_canonical(match: dict, snake: int) -> list[int]:
    """The features of the board turned until the snake looks up, mirrored if its nearest bean is then on the left."""
    direction = match["directions"][snake]
    upright = LOOKING_UP[direction]

    def mirrored(rows: int, columns: int) -> tuple[int, int]:
        ahead, aside = upright(rows, columns)
        return ahead, -aside

    # Of beans equally far the first has the smallest lead over mates, then over foes, a lead below 0 counting as more
    # than any other, and is not on the left if one of them is not.
    first = min(
        expected_beans(match, snake, upright),
        key=lambda bean: (abs(bean[0]) + abs(bean[1]), bean[3] % 256, bean[2] % 256, bean[1] < 0),
        default=[0, 0],
    )
    on_the_left = first[1] < 0
    row = expected_features(match, snake, mirrored if on_the_left else upright)
    return [*row[:-2], int(direction in (LEFT, RIGHT)), direction + 4 * on_the_left]


EXPECTED = {"features": expected_features, "canonical": expected_canonical}


def nearest_first(entry: list[int]) -> tuple:
    return abs(entry[0]) + abs(entry[1]), entry


def with_ties_in_order(row: list[int]) -> list[int]:
    """The vector with entries that are equally far put in the reference's order; the order of distances is kept."""
    row = list(row)
    for start, count, width in ((28, 5, 4), (48, 2, 5), (58, 3, 5)):
        entries = [row[start + k * width : start + (k + 1) * width] for k in range(count)]
        real = [e for e in entries if width == 5 or e != [0, 0, -15, -15]]
        far = [nearest_first(e)[0] for e in real]
        assert far == sorted(far), f"not nearest first: {entries}"
        assert entries[: len(real)] == real, f"an absent bean before a present one: {entries}"
        row[start : start + count * width] = flat(sorted(real, key=nearest_first) + entries[len(real) :])
    return row


def expected_planes(match: dict, snake: int) -> list[int]:
    snakes = match["snakes"]
    mates, foes = sides(snake)
    head = snakes[snake][0]
    wait, owner = waits(match), owners(match)
    planes = np.zeros((6, 10, 20), int)

    def middle(cell) -> tuple[int, int]:
        return (cell[0] - head[0] + 5) % 10, (cell[1] - head[1] + 10) % 20

    for plane, others in ((0, [snake]), (1, mates), (2, foes)):
        for cell in owner:
            if owner[cell] in others:
                planes[(plane, *middle(cell))] = min(8, wait[cell])
    for plane, others in ((3, mates), (4, foes)):
        for i in others:
            planes[(plane, *middle(snakes[i][0]))] = 1
    for bean in match["beans"]:
        planes[(5, *middle(bean))] = 1
    totals = [sum(len(snakes[i]) for i in team) for team in ((snake, *mates), foes)]
    scalars = [int(match["directions"][snake] == d) for d in range(4)]
    return [*planes.ravel().tolist(), *scalars, len(snakes[snake]), *totals, 200 - match["turn"]]


def expected_window(match: dict, snake: int, orientation: int) -> list[int]:
    """Every cell of the window of `egocentric` looked up on the torus."""
    snakes, (mates, foes), wait, owner = match["snakes"], sides(snake), waits(match), owners(match)
    head, upright = snakes[snake][0], LOOKING_UP[orientation % 4]
    planes = np.zeros((6, 13, 13), int)
    for rows, columns in product(range(-6, 7), range(-6, 7)):
        ahead, aside = upright(rows, columns)
        place = ahead + 6, (-aside if orientation >= 4 else aside) + 6
        cell = (head[0] + rows) % 10, (head[1] + columns) % 20
        if cell in owner:
            team = (0, 1, 2)[(owner[cell] != snake) + (owner[cell] in foes)]
            planes[(team, *place)] = min(8, wait[cell])
        planes[(3, *place)] = any(tuple(snakes[i][0]) == cell for i in mates)
        planes[(4, *place)] = any(tuple(snakes[i][0]) == cell for i in foes)
        planes[(5, *place)] = list(cell) in [list(bean) for bean in match["beans"]]
    return planes.ravel().tolist()


@pytest.fixture(scope="module")
def positions() -> BatchArena:
    """Positions of all ages: played out by growing snakes, and recorded ones, crowded ones among them."""
    games = BatchArena(MATCHES, seed=SEED)
    games.start()
    generator = np.random.default_rng(SEED)
    states = []
    for turn in range(199):
        if turn % 16 == 0:
            states.append(games.state.clone())
        games.play_turn(torch.from_numpy(semi_greedy_moves(games.state.numpy(), generator)))
    recorded = [step.after for step in steps()[::31] if not step.over and all(step.after["snakes"])]
    played = torch.cat(states)
    arena = BatchArena(len(played) + len(recorded))
    arena.state[: len(played)] = played
    for i, match in enumerate(recorded):
        arena.set_match(len(played) + i, match)
    return arena


def matches_of(arena: BatchArena) -> list[dict]:
    return [arena.get_match(i) for i in range(arena.matches)]


@pytest.mark.parametrize("encoder", EXPECTED)
def test_every_byte_of_the_vectors_is_as_the_reference_says(positions, encoder) -> None:
    seen = positions.observe(encoder).tolist()
    for i, match in enumerate(matches_of(positions)):
        for snake in range(i % 2, 6, 2):
            expected = EXPECTED[encoder](match, snake)
            assert with_ties_in_order(seen[i][snake]) == expected, (i, snake, match, f"seed {SEED}")


def test_a_snake_looks_up_and_its_nearest_bean_is_not_on_the_left(positions) -> None:
    seen = positions.observe("canonical").view(-1, 80)
    assert seen[:, 12:16].unique(dim=0).tolist() == [[1, 0, 0, 0]]
    assert int(seen[:, 29].min()) == 0, f"seed {SEED}"
    assert set(seen[:, 79].tolist()) == set(range(8)), f"every orientation should occur, seed {SEED}"


# Boards that are the same game: what becomes of a cell, of a direction and of an orientation.
SAME_GAMES = {
    "left and right swapped": (lambda r, c: [r, 19 - c], [UP, DOWN, RIGHT, LEFT], [4, 5, 7, 6, 0, 1, 3, 2]),
    "up and down swapped": (lambda r, c: [9 - r, c], [DOWN, UP, LEFT, RIGHT], [5, 4, 6, 7, 1, 0, 2, 3]),
    "upside down": (lambda r, c: [9 - r, 19 - c], [DOWN, UP, RIGHT, LEFT], [1, 0, 3, 2, 5, 4, 7, 6]),
}


def with_something_opposite(seen: torch.Tensor) -> torch.Tensor:
    """Where something is just as far one way round as the other: the way shown is not that of the board as it is."""
    rows = [*range(28, 48, 4), *range(48, 73, 5)]
    return (seen[..., rows] == -5).any(-1) | (seen[..., [at + 1 for at in rows]] == -10).any(-1)


def with_no_bean_to_turn_to(seen: torch.Tensor) -> torch.Tensor:
    """Where the nearest bean is on neither side, or is just as good as one on the other side: a mirror shows."""
    beans = seen[..., 28:48].unflatten(-1, (5, 4))
    far = beans[..., :2].abs().sum(-1)
    as_good = (far == far[..., :1]) & (beans[..., 2:] == beans[..., :1, 2:]).all(-1)
    return (beans[..., 0, 1] == 0) | (as_good & (beans[..., 1] < 0)).any(-1)


@pytest.mark.parametrize("name", SAME_GAMES)
def test_a_mirrored_or_turned_board_looks_the_same(positions, name) -> None:
    moved, directions, orientations = SAME_GAMES[name]
    twin = BatchArena(positions.matches)
    for i, match in enumerate(matches_of(positions)):
        changed = {
            "turn": match["turn"],
            "snakes": [[moved(*cell) for cell in body] for body in match["snakes"]],
            "directions": [directions[d] for d in match["directions"]],
            "beans": [moved(*bean) for bean in match["beans"]],
        }
        twin.set_match(i, changed)
    plain, seen, other = positions.observe("features"), positions.observe("canonical"), twin.observe("canonical")
    fit = ~with_something_opposite(plain)
    if name != "upside down":
        fit &= ~with_no_bean_to_turn_to(seen)
    assert int(fit.sum()) > 400, f"too few positions are left, seed {SEED}"
    assert torch.equal(seen[fit][:, :79], other[fit][:, :79]), f"seed {SEED}"
    assert torch.equal(torch.tensor(orientations)[seen[fit][:, 79].long()], other[fit][:, 79].long()), f"seed {SEED}"
    assert not torch.equal(plain[fit], twin.observe("features")[fit]), "the other encoder shows which board it is"


def test_every_byte_of_the_planes_is_as_the_reference_says(positions) -> None:
    seen = positions.observe("planes").tolist()
    for i, match in enumerate(matches_of(positions)):
        snake = i % 6
        assert seen[i][snake] == expected_planes(match, snake), (i, snake, match)


def test_every_byte_of_the_window_is_as_the_reference_says(positions) -> None:
    seen, canonical = positions.observe("egocentric").tolist(), positions.observe("canonical").tolist()
    for i, match in enumerate(matches_of(positions)):
        snake = i % 6
        window = expected_window(match, snake, canonical[i][snake][-1])
        assert seen[i][snake] == [*window, 0, 0, *canonical[i][snake]], (i, snake, match, f"seed {SEED}")


# Two tails on the cell (4, 5), and the plane in which each snake sees the one on the board: own, mates' or foes'.
SHARED_TAILS = {
    "red and blue": (
        {0: ([(4, 7), (4, 6), (4, 5)], RIGHT), 3: ([(2, 5), (3, 5), (4, 5)], UP)},
        [0, 1, 1, 2, 2, 2],
    ),
    "both red": ({1: ([(4, 3), (4, 4), (4, 5)], LEFT), 2: ([(6, 5), (5, 5), (4, 5)], DOWN)}, [1, 0, 1, 2, 2, 2]),
    "both blue": ({3: ([(4, 7), (4, 6), (4, 5)], RIGHT), 5: ([(2, 5), (3, 5), (4, 5)], UP)}, [2, 2, 2, 0, 1, 1]),
}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.needs_cuda)])
@pytest.mark.parametrize("name", SHARED_TAILS)
def test_of_two_tails_on_one_cell_the_first_is_shown_and_nothing_elsewhere(name, device) -> None:
    snakes, plane_seen = SHARED_TAILS[name]
    arena = BatchArena(1, device)
    arena.start()
    arena.set_match(0, board(snakes, beans=[(9, 12)]))
    match = arena.get_match(0)
    seen = {
        encoder: arena.observe(encoder)[0].cpu() for encoder in ("planes", "egocentric", "tactical_board", "canonical")
    }
    for snake in range(6):
        assert seen["planes"][snake].tolist() == expected_planes(match, snake)
        canonical = seen["canonical"][snake].tolist()
        window = [*expected_window(match, snake, canonical[-1]), 0, 0]
        assert seen["egocentric"][snake].tolist() == [*window, *canonical]
        assert seen["tactical_board"][snake, : len(window)].tolist() == window
        bodies = seen["planes"][snake, :600].view(3, 10, 20)
        (row, column), head = (4, 5), match["snakes"][snake][0]
        tails = bodies[:, (row - head[0] + 5) % 10, (column - head[1] + 10) % 20]
        assert tails.tolist() == [int(plane == plane_seen[snake]) for plane in range(3)]
        assert int((bodies > 0).sum()) == 6 * 3 - 1


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_observations_keep_within_the_declared_bounds(positions, encoder) -> None:
    seen = positions.observe(encoder).numpy()
    assert seen.dtype == ENCODERS[encoder].dtype
    assert (seen >= ENCODERS[encoder].low).all()
    assert (seen <= ENCODERS[encoder].high).all()


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_scaled_observations_are_small_numbers(positions, encoder) -> None:
    scaled = positions.observe(encoder).float() * torch.from_numpy(ENCODERS[encoder].scale)
    assert float(scaled.abs().max()) <= 10


@pytest.mark.parametrize("seat", range(1, 6))
def test_a_seat_sees_what_seat_0_sees_in_the_relabelled_and_shifted_match(positions, seat) -> None:
    mates, foes = sides(seat)
    order = [seat, *mates, *foes]
    twin = BatchArena(positions.matches)
    for i, match in enumerate(matches_of(positions)):
        rows, columns = 1 + i % 9, 1 + i % 19

        def moved(cells, rows=rows, columns=columns):
            return [[(r + rows) % 10, (c + columns) % 20] for r, c in cells]

        twin.set_match(
            i,
            {
                "turn": match["turn"],
                "snakes": [moved(match["snakes"][k]) for k in order],
                "directions": [match["directions"][k] for k in order],
                "beans": moved(match["beans"]),
            },
        )
    for encoder in ENCODERS:
        assert torch.equal(positions.observe(encoder)[:, seat], twin.observe(encoder)[:, 0]), encoder


@pytest.mark.parametrize("what", ["beans", "mates", "foes"])
def test_the_order_of_lists_does_not_show(positions, what) -> None:
    twin = BatchArena(positions.matches)
    order = {"beans": [0, 1, 2, 3, 4, 5], "mates": [0, 2, 1, 3, 4, 5], "foes": [0, 1, 2, 4, 5, 3]}[what]
    for i, match in enumerate(matches_of(positions)):
        changed = match | {k: [match[k][j] for j in order] for k in ("snakes", "directions")}
        if what == "beans":
            changed["beans"] = match["beans"][::-1]
        twin.set_match(i, changed)
    for encoder in ENCODERS:
        assert torch.equal(positions.observe(encoder)[:, 0], twin.observe(encoder)[:, 0]), encoder


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
@pytest.mark.parametrize("count", [0, 1, 7, 500, 2500])
def test_seats_in_any_order_get_their_own_rows(positions, encoder, count) -> None:
    everything = positions.observe(encoder).reshape(positions.matches * 6, -1)
    chosen = np.random.default_rng(SEED).integers(0, len(everything), count)
    seats = torch.from_numpy(chosen.astype(np.int32))
    assert torch.equal(positions.observe(encoder, seats=seats), everything[seats.long()]), f"seed {SEED}"


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_the_callers_tensor_is_written_and_handed_back(positions, encoder) -> None:
    fresh = positions.observe(encoder)
    out = torch.full_like(fresh, 7)
    given = positions.observe(encoder, out=out)
    assert given.data_ptr() == out.data_ptr()
    assert torch.equal(out, fresh)


def test_observing_changes_nothing(positions) -> None:
    before = positions.state.clone()
    for encoder in ENCODERS:
        positions.observe(encoder)
    assert torch.equal(positions.state, before)


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_a_finished_match_with_an_empty_snake_stays_in_bounds(encoder) -> None:
    case = next(step for step in steps() if step.case == "no_room" and step.over)
    assert [] in case.after["snakes"]
    after = play(case.before, case.taken)
    arena = BatchArena(1)
    arena.set_match(0, after.match)
    seen = arena.observe(encoder).numpy()
    assert ((seen >= ENCODERS[encoder].low) & (seen <= ENCODERS[encoder].high)).all()


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
def test_matches_that_were_never_started_can_be_observed(encoder) -> None:
    seen = BatchArena(2).observe(encoder).numpy()
    assert ((seen >= ENCODERS[encoder].low) & (seen <= ENCODERS[encoder].high)).all()


@pytest.mark.parametrize("encoder", EXPECTED)
@pytest.mark.parametrize("count", range(5))
def test_missing_beans_come_last_and_look_far_away(encoder, count) -> None:
    match = board({0: ([(7, 4), (7, 5), (7, 6)], LEFT)})
    match["beans"] = match["beans"][:count]
    arena = BatchArena(1)
    arena.set_match(0, match)
    seen = arena.observe(encoder)[0, 0].tolist()
    assert seen[28 + 4 * count : 48] == [0, 0, -15, -15] * (5 - count)
    assert with_ties_in_order(seen) == EXPECTED[encoder](match, 0)


@pytest.mark.parametrize("encoder", EXPECTED)
def test_very_long_snakes_are_shown_as_127(encoder) -> None:
    cells = [(r, c) for r in range(7) for c in range(20)]
    match = board({0: (cells, LEFT)}, beans=[(8, 1), (8, 2), (8, 3), (8, 4), (8, 5)])
    arena = BatchArena(1)
    arena.set_match(0, match)
    for snake in (0, 3):
        assert with_ties_in_order(arena.observe(encoder)[0, snake].tolist()) == EXPECTED[encoder](match, snake)

"""The encoder `planes`: reflections of the board."""

import numpy as np
import torch

from arena import BatchArena
from arena.encoders import encoder_named
from arena.rules import COLUMNS, ROWS, SNAKES


def test_a_reflected_match_gives_the_reflected_planes() -> None:
    arena, rng = BatchArena(1, seed=3), np.random.default_rng(3)
    arena.start()
    for _ in range(60):
        arena.play_turn(torch.from_numpy(rng.integers(0, 4, (1, SNAKES))))
    match, obs = arena.get_match(0), arena.observe("planes")[0].clone()
    columns, actions = encoder_named("planes").reflections
    for k, (flips_rows, flips_columns) in enumerate(((False, False), (False, True), (True, False), (True, True))):

        def reflect(cells: list, rows: bool = flips_rows, columns: bool = flips_columns) -> list:
            return [[-row % ROWS if rows else row, -column % COLUMNS if columns else column] for row, column in cells]

        reflected = match | {
            "snakes": [reflect(body) for body in match["snakes"]],
            "directions": [int(actions[k][direction]) for direction in match["directions"]],
            "beans": reflect(match["beans"]),
        }
        arena.set_match(0, reflected)
        np.testing.assert_array_equal(arena.observe("planes")[0], obs[:, columns[k]], f"reflection {k}")

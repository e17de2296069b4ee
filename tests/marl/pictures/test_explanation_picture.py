"""The picture of why matches were lost: every cause has its colour, and bars are as tall as what was lost."""

import numpy as np
import pytest

from marl.analysis.explanation import KINDS
from marl.pictures.canvas import SCALE
from marl.pictures.explanation import COLOURS, HEIGHT, WIDTH, draw


def group(causes: dict[str, int]) -> dict:
    return {"deaths": len(causes), "cells": sum(causes.values()), "boxed_in_cells": 0, "causes": causes}


def tables(early: dict[str, int], late: dict[str, int]) -> dict:
    total = {kind: early.get(kind, 0) + late.get(kind, 0) for kind in KINDS if kind in early or kind in late}
    return {
        "lost": 2,
        "causes": {kind: {"deaths": 1, "cells": cells, "boxed_in_cells": cells // 2} for kind, cells in total.items()},
        "by_turn": {"1-50": group(early), "51-100": group(late)},
        "by_length": {"3": group({}), "4-7": group(total)},
        "by_colour": {"red": {"lost": 2} | group(total), "blue": {"lost": 0} | group({})},
    }


def test_every_cause_has_a_colour():
    assert [*COLOURS] == [*KINDS]
    assert len({*COLOURS.values()}) == len(COLOURS)


def pixels(image, kind) -> int:
    return int((np.asarray(image) == COLOURS[kind]).all(2).sum())


def test_bars_show_what_was_lost():
    leads = np.linspace(1, -9, 201).tolist()
    image = draw("a against b", tables({"own body": 10}, {"own body": 10, "mate's head": 20}), leads)
    assert image.size == (WIDTH * SCALE, HEIGHT * SCALE)
    assert pixels(image, "mate's head") == pytest.approx(pixels(image, "own body"), rel=0.1)
    assert pixels(image, "mate's head") > 10_000
    assert pixels(image, "reversal") == 0
    assert pixels(image, "foe's body") > 500  # the colour of the lead's line


def test_nothing_lost_by_deaths_is_drawn_too():
    image = draw("a against b", tables({}, {}), [0.0] * 201)
    assert pixels(image, "own body") == 0

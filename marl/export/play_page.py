"""The play page: a policy as one HTML file in which people play with and against it. No network, no server.

The page contains the rules (arena/render/rules.js), searches (searches.js), the encoders and layers (policy.js), the
planner (planner.js, in a Web Worker of planner_worker.js), and the weights.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from arena.encoders import Encoder
from arena.render import page
from marl.export.dense_layers import DenseLayer, packed, widths
from marl.planning.value_scale import UNTOLD, ValueScale

FOLDER = Path(__file__).parent
# Those that policy.js can compute.
ENCODERS = {"features", "canonical", "planes", "egocentric", "tactical", "tactical_board"}
SEAT = 0  # of the human at the start
SHARED = ("board", "rules")  # scripts of arena/render
SCRIPTS = ("searches", "policy", "planner", "planner_worker", "levels", "portrait", "replay_file", "play_page")


def play_page(layers: Sequence[DenseLayer], encoder: Encoder, name: str, scale: ValueScale = UNTOLD) -> str:
    """The text of a page that plays the policy of these layers, starting with match 0 of seed 0.

    scale: of the policy's values, for planning.
    """
    policy = {
        "encoder": encoder.name,
        "orientationAt": encoder.orientation_at,
        "widths": widths(layers),
        "weights": packed(layers, encoder.scale),
        "scale": scale._asdict(),
    }
    chinese = json.loads((FOLDER / "play_page_chinese.json").read_text("utf-8"))
    data = {"look": page.look(), "name": name, "seed": "0", "seat": SEAT, "policy": policy, "chinese": chinese}
    paths = [*(page.FOLDER / f"{name}.js" for name in SHARED), *(FOLDER / f"{name}.js" for name in SCRIPTS)]
    scripts = {path.stem: path.read_text("utf-8") for path in paths}
    return page.filled(FOLDER / "play_page.html", {"data": page.embedded(data), "language": page.language(), **scripts})

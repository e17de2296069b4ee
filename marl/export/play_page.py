"""A policy as one HTML page in which anybody plays with and against it: no network, no server, no other file.

The page holds the rules (arena/render/rules.js), the encoders and the layers (policy.js), and the weights.
"""

from collections.abc import Sequence
from pathlib import Path

from arena.encoders import Encoder
from arena.render.page import embedded, filled, look
from marl.export.dense_layers import Layer, packed, widths

FOLDER = Path(__file__).parent
DRAWING = FOLDER.parent / "arena" / "render"
SEAT = 0  # that the person has at first
SCRIPTS = (DRAWING / "board.js", DRAWING / "rules.js", FOLDER / "policy.js", FOLDER / "play_page.js")


def play_page(layers: Sequence[Layer], encoder: Encoder, name: str, seed: int = 0) -> str:
    """The text of a page that plays with the policy of these layers, beginning with match 0 of the seed."""
    policy = {
        "encoder": encoder.name,
        "frameAt": encoder.orientation_at,
        "widths": widths(layers),
        "weights": packed(layers),
    }
    data = {"look": look(), "name": name, "seed": str(seed), "seat": SEAT, "policy": policy}
    scripts = {path.stem: path.read_text("utf-8") for path in SCRIPTS}
    return filled(FOLDER / "play_page.html", {"data": embedded(data), **scripts})

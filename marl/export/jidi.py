"""A policy as the competition's submission.py: one file with the weights inside, which needs only numpy."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from arena.encoders import FORMER_NAMES, Encoder
from arena.rules import RULES_VERSION
from marl.export import submission_template
from marl.export.dense_layers import DenseLayer, packed, widths
from marl.networks.spec import ACTIONS

TEMPLATE = Path(submission_template.__file__)
ENCODERS = submission_template.ENCODERS.keys() - FORMER_NAMES.keys()  # those that a submission can compute
_MARK = "# --- the trained policy: "
_LINE = 116  # characters of base64 per line, a multiple of four


def submission_source(layers: Sequence[DenseLayer], encoder: Encoder, name: str) -> str:
    """The text of a submission.py that plays like the policy."""
    layers = [*layers[:-1], DenseLayer(layers[-1].weight[:ACTIONS], layers[-1].bias[:ACTIONS])]  # without the value
    code, mark, rest = TEMPLATE.read_text().partition(_MARK)
    assert mark, f"{TEMPLATE} has no line that starts with {_MARK!r}"
    sizes = widths(layers)
    text = packed(layers)
    return "".join(
        [
            code,
            mark + rest.partition("\n")[0] + "\n",
            f"PLAYER = {_literal(name)}  # rules {RULES_VERSION}, encoder version {encoder.version}\n",
            f"ENCODE = ENCODERS[{_literal(encoder.name)}]\n",
            "LAYERS = unpacked(\n",
            f"    {list(pairwise(sizes))},\n",
            '    """\n',
            *(text[at : at + _LINE] + "\n" for at in range(0, len(text), _LINE)),
            '""",\n)\n',
        ]
    )


def _literal(text: str) -> str:
    """The text as Python source, in the quotes that a formatter would choose."""
    return repr(text) if '"' in text else json.dumps(text)

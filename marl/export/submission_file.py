"""A policy as the competition's submission.py: one file with the weights inside, which needs only numpy."""

import base64
import hashlib
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from arena.encoders import FORMER_NAMES, Encoder
from arena.rules import ACTIONS, RULES_VERSION
from marl.export import submission_template, tactical_template
from marl.export.dense_layers import DenseLayer, packed, widths
from marl.planning.value_scale import UNTOLD, ValueScale

TEMPLATE = Path(submission_template.__file__)
ENCODERS = tactical_template.ENCODERS.keys() - FORMER_NAMES.keys()  # those that a submission can compute
APPENDED = ("tactical",)  # templates
APPENDED_WITH_PLAN = (*APPENDED, "simulation", "batched_tactical", "foe_models", "planning")
_MARK = "# --- the trained policy: "
_RULE = "\n# --- "  # the text of an appended template begins with its first ruled comment
# The products of planning are small: threads of BLAS would only wait for each other. Set before numpy is imported.
_IMPORTS = (
    "import base64\nimport sys\n\nimport numpy as np\n",
    "import base64\nimport ctypes\nimport os\nimport sys\nimport time\n\n"
    'for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):\n'
    '    os.environ.setdefault(_name, "1")\n\nimport numpy as np\n',
)
_LINE = 116  # characters of base64 per line, a multiple of four


def submission_source(
    layers: Sequence[DenseLayer], encoder: Encoder, name: str, plan_ms: float | None = None, scale: ValueScale = UNTOLD
) -> str:
    """The text of a submission.py that plays like the policy, or looks ahead with it for plan_ms milliseconds.

    scale: of the policy's values, for planning.
    """
    code, mark, rest = TEMPLATE.read_text("utf-8").partition(_MARK)
    assert mark, f"{TEMPLATE} has no line that starts with {_MARK!r}"
    if plan_ms is None:
        last = layers[-1]
        layers = [*layers[:-1], DenseLayer(last.weight[:ACTIONS], last.bias[:ACTIONS])]  # without the value
        code = _joined(code, APPENDED)
    else:
        assert code.count(_IMPORTS[0]) == 1, f"{TEMPLATE} has other imports than expected"
        code = _joined(code.replace(*_IMPORTS), APPENDED_WITH_PLAN)
    sizes = widths(layers)
    text = packed(layers, encoder.scale)
    return "".join(
        [
            code,
            mark + rest.partition("\n")[0] + "\n",
            f"PLAYER = {_literal(name)}  # rules {RULES_VERSION}, encoder version {encoder.version}\n",
            f'WEIGHTS_SHA256 = "{weights_hash(text)}"\n',
            f"ENCODE = ENCODERS[{_literal(encoder.name)}]\n",
            "LAYERS = unpacked(\n",
            f"    {list(pairwise(sizes))},\n",
            '    """\n',
            *(text[at : at + _LINE] + "\n" for at in range(0, len(text), _LINE)),
            '""",\n)\n',
            "" if plan_ms is None else _planning(plan_ms, scale),
        ]
    )


def _planning(plan_ms: float, scale: ValueScale) -> str:
    weights = f"FOES, LEAF = {scale.foes:.6g}, {scale.leaf:.6g}  # by the reward of the training\n"
    return f"PLAN_MS = {plan_ms:g}  # of a call\n{weights}choose = choose_planned\nwarm_up()\n"


def weights_hash(packed_weights: str) -> str:
    """What the file tells of its weights, so that a check knows whether they are still those of the player."""
    return hashlib.sha256(base64.b64decode(packed_weights)).hexdigest()


def _literal(text: str) -> str:
    """The text as Python source, in the quotes that a formatter would choose."""
    return repr(text) if '"' in text else json.dumps(text)


def _joined(code: str, appended: Sequence[str]) -> str:
    """The template's code and the text of the appended templates."""
    parts = [TEMPLATE.with_name(f"{name}_template.py").read_text("utf-8").partition(_RULE) for name in appended]
    return code + "\n\n".join((rule + text).lstrip("\n") for _, rule, text in parts) + "\n\n"

"""The field: teams unlike the champion, in two halves, which opponents/field.yaml lists.

`development` is for choosing and tuning; `held_out` is looked at once, when a change is finished. Both are groups of
players. The trained teams are snapshots in opponents/field; scripts/train_field.py trains them.
"""

from pathlib import Path

import yaml

LIST = Path(__file__).with_name("field.yaml")
SNAPSHOTS = Path(__file__).with_name("field")  # NAME.safetensors
DEVELOPMENT, HELD_OUT = "development", "held_out"


def trainings(half: str) -> dict[str, str]:
    """The trained teams of a half, and the flags of `train` that made each."""
    return dict(_read()[half]["trained"])


def field(half: str) -> list[str]:
    """The names of all teams of a half."""
    return [*_read()[half]["scripted"], *trainings(half)]


def listing() -> list[tuple[str, str]]:
    """The trained teams with one line about each."""
    halves = ((half, trainings(half)) for half in (DEVELOPMENT, HELD_OUT))
    return [(name, f"Of {half}: train {flags}") for half, teams in halves for name, flags in teams.items()]


def _read() -> dict[str, dict]:
    return yaml.safe_load(LIST.read_text(encoding="utf-8"))

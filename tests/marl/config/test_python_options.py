"""Options as Python values: what a list, a dictionary or a number means, and what cannot be written."""

from pathlib import Path

import numpy as np
import pytest
import torch

from marl.config.python_options import as_flags
from marl.config.train_config import read_config
from marl.errors import UserError


@pytest.mark.parametrize(
    ("options", "path", "value"),
    [
        ({"body": [32, 16]}, "network.body", (32, 16)),
        ({"body": (32, 16)}, "network.body", (32, 16)),
        ({"body": np.array([32, 16])}, "network.body", (32, 16)),
        ({"network": {"body": [8]}}, "network.body", (8,)),
        ({"eval_opponents": ["level0", "level1"]}, "evaluation.eval_opponents", ("level0", "level1")),
        ({"opponents": {"level3": 0.4, "level3:0.2": 0.1}}, "schedule.opponents", ("level3:0.4", "level3:0.2:0.1")),
        ({"opponents": []}, "schedule.opponents", ()),
        ({"opponents": {}}, "schedule.opponents", ()),
        ({"algo": "ppo", "ppo": {"lr": 1e-3}}, "ppo.lr", 0.001),
        ({"algo": "ppo", "ppo.lr": np.float64(1e-3)}, "ppo.lr", 0.001),
        ({"algo": "ppo", "lr": torch.tensor(0.5)}, "ppo.lr", 0.5),
        ({"schedule": {"max_episodes": np.int64(7)}}, "schedule.max_episodes", 7),
        ({"max_episodes": 5e3}, "schedule.max_episodes", 5000),
        ({"max_minutes": 2}, "max_minutes", 2.0),
        ({"graphs": False}, "graphs", False),
        ({"graphs": np.bool_(False)}, "graphs", False),
        ({"matches": None}, "matches", None),
        ({"runs_dir": Path("a folder, odd")}, "runs_dir", "a folder, odd"),
    ],
    ids=str,
)
def test_a_value_of_python_is_that_value(options, path, value) -> None:
    config = read_config(as_flags(options))
    for name in path.split("."):
        config = getattr(config, name)
    assert config == value
    assert type(config) is type(value)


def test_an_item_with_a_comma_is_no_two_items() -> None:
    with pytest.raises(UserError, match=r"^eval_opponents: 'a,b/submission.py' holds a comma"):
        as_flags({"eval_opponents": ["level0", "a,b/submission.py"]})


def test_what_is_no_value_is_told() -> None:
    with pytest.raises(UserError, match=r"--body is .*; allowed: a list, every item a whole number"):
        read_config(as_flags({"body": ["wide"]}))
    with pytest.raises(UserError, match=r"unknown flag --ppo\.learning_rate"):
        read_config(as_flags({"algo": "ppo", "ppo": {"learning_rate": 1}}))

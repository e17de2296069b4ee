"""train --help: short by default, complete on demand, every choice explained."""

import pytest
from helpers.command import assert_one_line
from helpers.training import here

from marl.config.named_configs import config_names
from marl.config.options import Schema
from marl.config.train_config import MAIN_OPTIONS, TrainConfig
from marl.config.values import choices_of


def test_the_short_help_has_the_flags_that_matter() -> None:
    text = here("train", "--help").stdout
    schema = Schema(TrainConfig)
    main = [path for paths in MAIN_OPTIONS.values() for path in paths]
    assert len(main) <= 23
    flags = [line.split()[0].rstrip(",") for line in text.splitlines() if line.startswith("  --")]
    for path in main:
        assert schema.shortest_flag(schema.options[path]) in flags
    assert "--ddpg.tau" not in text
    assert "--help all" in text
    assert len(text.splitlines()) <= 120
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    "path", ["algo", "schedule.strategy", "network.encoder", "network.model_size", "reward.preset"]
)
def test_every_choice_is_explained_where_it_is_listed(path) -> None:
    lines = [line.strip() for line in here("train", "--help").stdout.splitlines()]
    for name in choices_of(Schema(TrainConfig).options[path].type):
        assert any(line.startswith(f"{name}  ") and len(line.split()) > 1 for line in lines), name


def test_every_configuration_is_listed_with_its_purpose() -> None:
    lines = [line.strip() for line in here("train", "--help").stdout.splitlines()]
    for name in config_names():
        assert any(line.startswith(f"{name}  ") and len(line) > len(name) + 8 for line in lines), name


def test_the_help_of_one_section() -> None:
    text = here("train", "--help", "ppo").stdout
    assert "--ppo.clip, --clip FLOAT" in text
    assert "--ddpg" not in text
    assert_one_line(here("train", "--help", "pop"), "--help pop", "known: all, schedule")

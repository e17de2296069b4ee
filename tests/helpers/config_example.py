"""A configuration that has options of every type, for tests of the reader."""

from dataclasses import dataclass, field
from typing import Literal, Optional

import pytest

from marl.config.options import Option, Schema
from marl.config.reader import read
from marl.errors import UserError
from opponents.scheduler import ScheduleConfig


@dataclass(frozen=True)
class Optimizer:
    lr: float = 1e-3
    """Step size."""
    clip: float | None = None
    """Longest gradient."""


@dataclass(frozen=True)
class Ddpg:
    tau: float = 0.01
    """Soft update of the target networks:
    share of the new weights."""
    body: tuple[int, ...] = (128, 128)
    noise: Literal["on", "off"] = "on"
    optimizer: Optimizer = Optimizer()


@dataclass(frozen=True)
class Ppo:
    tau: float = 0.5
    amp: bool = True
    epochs: int = 4


@dataclass(frozen=True)
class Config:
    algo: Literal["ddpg", "ppo", "random"] = "ddpg"
    """The learner."""
    seed: int = 0
    name: str = "run"
    batch_size: int | None = None
    device: Optional[Literal["cpu", "cuda"]] = None  # noqa: UP045 - the old spelling must work as well
    verbose: bool = False
    compile: bool | None = None
    check_sync: int = field(default=0, metadata={"bare": 100})
    """Compare the ranks every so many updates."""
    tags: tuple[str, ...] = ()
    seeds: tuple[int, ...] | None = None
    note: str | None = None
    steps: int = field(default=0, init=False)  # worked out, not a setting
    ddpg: Ddpg = field(default_factory=Ddpg)
    ppo: Ppo = Ppo(epochs=7)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)


ALIASES = {"opponent_difficulty_strategy": "schedule.strategy"}


def options_of(cls: type) -> list[Option]:
    return list(Schema(cls).options.values())


def at(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config


def reader(*words, layers=()):
    return read(Config, words, ALIASES, "algo", layers)


def mistake(*words, layers=(), prefer="algo") -> str:
    with pytest.raises(UserError) as caught:
        read(Config, words, ALIASES, prefer, layers)
    assert "\n" not in str(caught.value)
    return str(caught.value)

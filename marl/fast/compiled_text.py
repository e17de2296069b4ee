"""The text of a learner compiled by torch, on a GPU: losses, steps, and the policy's outputs.

What is compiled is kept in torch's cache on disk. A first start takes some 10 s more, a later one some 3 s; so a run
of few updates runs uncompiled.
"""

from collections.abc import Callable
from typing import Any

import torch

from arena.rules import TURNS
from marl.config.train_config import TrainConfig
from marl.learners.learner import Learner

PAYS_FROM = 20_000  # updates of a run; each is some 0.5 ms shorter
# Small kernels that do not wait for each other become one: 10 % of an update of DDPG or QMIX.
OPTIONS: dict[str, Any] = {"combo_kernels": True}
RECOMPILES = 64  # shapes of the policy: of the rollout, of past selves, of named players


def compiles(config: TrainConfig, learner: Learner, world: int) -> bool:
    """Whether the text of a run on a GPU is compiled."""
    if config.compile != "auto":
        return config.compile == "on"
    cycles = config.schedule.max_episodes * TURNS / (config.matches * world * learner.turns)
    return cycles * learner.updates >= PAYS_FROM


def compile_text(learner: Learner, config: TrainConfig, notify: Callable[[str], None]) -> None:
    """Compile what runs in every update and every turn, if it pays."""
    if not compiles(config, learner, learner.group.world):
        return
    import torch._dynamo

    torch._dynamo.config.recompile_limit = RECOMPILES
    learner.losses = _Compiled(learner.losses, notify)  # type: ignore[method-assign,assignment]
    learner.finish = _Compiled(learner.finish, notify)  # type: ignore[method-assign,assignment]
    learner.precision.act = _Compiled(learner.precision.act, notify)  # type: ignore[method-assign,assignment]


class _Compiled:
    """A function as torch compiles it; as it stands, if torch cannot: without a C compiler, for example."""

    def __init__(self, function: Callable[..., Any], notify: Callable[[str], None]) -> None:
        self._function, self._notify = function, notify
        self._call = torch.compile(function, dynamic=False, options=OPTIONS)
        self._works = False  # whether it has been called

    def __call__(self, *arguments: Any) -> Any:
        if self._works:
            return self._call(*arguments)
        try:
            result = self._call(*arguments)
        except Exception as error:  # of any kind: of the compiler's, of Triton's, of the C compiler's
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            self._notify(f"torch cannot compile {self._function.__qualname__}, which runs as it stands: {reason[:200]}")
            self._call = self._function
            result = self._call(*arguments)
        self._works = True
        return result

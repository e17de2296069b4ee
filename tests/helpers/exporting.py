"""Untrained policies with clearly different logits, and recorded positions of the original game to compare them on."""

import sys
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from arena import BatchArena
from arena.encoders import encoder_named
from arena.encoders.orientation import LOCAL_ACTIONS
from arena.jidi import jidi_observation
from arena.rules import BEANS_MAX, SNAKES, TURNS
from helpers.command import ROOT
from marl.networks.actors import Actor
from marl.networks.policy import describe_actor, mask_reversal
from marl.networks.spec import NetworkSpec
from marl.rewards import RewardWeights
from marl.storage import checkpoint_writer
from marl.storage.policy_player import PolicyPlayer

sys.path.append(str(ROOT / "tests" / "arena"))
from helpers.recorded import steps

SEED = 7
LEAD = RewardWeights(own=1.0, mates=1.0, foes=1.0)
BODIES = {
    "features": (48, 32),
    "canonical": (48, 32),
    "planes": (64, 32, 16),
    "egocentric": (48, 32),
    "tactical": (48, 32),
    "tactical_board": (48, 32),
}
ENCODERS = tuple(BODIES)
TIE = 1e-4  # logits nearer than this may be ordered either way by another order of additions


def actor(encoder: str, value: bool = False) -> Actor:
    """A network whose logits differ clearly; with `value`, a fifth output."""
    torch.manual_seed(SEED)
    network = Actor(encoder_named(encoder), NetworkSpec(BODIES[encoder], 5 if value else 4))
    with torch.no_grad():
        for weight in network.parameters():
            if weight.ndim == 1:
                weight.normal_(0, 0.3)
        network.tail.head.weight.normal_(0, 1)
    return network.requires_grad_(False)


def player(encoder: str, value: bool = False) -> PolicyPlayer:
    """A policy of that network, as if it had been trained for the team's lead."""
    return PolicyPlayer(actor(encoder, value), encoder_named(encoder), f"untrained/{encoder}", LEAD)


def round_to_halves(who: PolicyPlayer) -> None:
    """Make all weights half floats, as those of the shipped teams are."""
    with torch.no_grad():
        for weight in who.actor.parameters():
            weight.copy_(weight.half())


def saved_run(folder: Path, encoder: str) -> Path:
    """A run folder with one checkpoint, like that of a training."""
    run = folder / f"run_{encoder}"
    run.mkdir()
    weights = {f"actor.{name}": tensor for name, tensor in actor(encoder).state_dict().items()}
    said = describe_actor(encoder_named(encoder), NetworkSpec(BODIES[encoder])) | {"world_size": 1}
    checkpoint_writer.save(run, 8, weights, {"state": {}}, said)
    return run


class Position(NamedTuple):
    match: dict[str, Any]
    stale: list[int] | None  # directions before the last turn, which the competition shows
    taken: list[int]  # the next moves of the snakes
    died: list[bool]  # on the turn before

    def observation(self, snake: int) -> dict[Any, Any]:
        return jidi_observation(self.match, snake, self.stale)


@cache
def whole_games() -> list[list[int]]:
    """The step numbers of the 28 games that were recorded from the first turn to the last."""
    by_game = groupby(enumerate(steps()), lambda numbered: numbered[1].name.partition(" step ")[0])
    numbers = [[number for number, _ in some] for _, some in by_game]
    return [game for game in numbers if len(game) == TURNS]


@cache
def games() -> list[list[Position]]:
    """The positions of these games, up to the last turn."""
    found = []
    for numbers in whole_games():
        game = [steps()[number] for number in numbers]
        stale = [None, *(step.before["directions"] for step in game[:-1])]
        died = [[False] * SNAKES, *(step.died for step in game[:-1])]
        found.append([Position(s.before, last, s.taken, d) for s, last, d in zip(game, stale, died, strict=True)])
    return found


@cache
def recorded_states() -> torch.Tensor:
    """The states before all 6,362 recorded steps, as BatchArena stores them."""
    arena = BatchArena(len(steps()))
    for i, step in enumerate(steps()):
        arena.set_match(i, step.before)
    return arena.state


def arena_of(states: torch.Tensor, seed: int = 0) -> BatchArena:
    """Matches in these states; match i draws like match i of the seed."""
    arena = BatchArena(len(states), seed=seed)
    arena.start()
    arena.state.copy_(states)
    return arena


@cache
def rows(encoder: str) -> np.ndarray:
    """The observations of all six snakes on every turn of every game: [28, 200, 6, W]."""
    states = recorded_states()[torch.tensor(whole_games()).flatten()]
    return arena_of(states).observe(encoder).numpy().reshape(len(games()), TURNS, SNAKES, -1)


def with_few_beans(encoder: str) -> Iterator[tuple[Position, np.ndarray]]:
    """First positions of games with 0 to 4 beans left, and the observations of the six snakes: [6, W]."""
    for number, game in enumerate(games()[:15]):
        match = game[0].match | {"beans": game[0].match["beans"][: number % BEANS_MAX]}
        arena = BatchArena(1)
        arena.set_match(0, match)
        yield game[0]._replace(match=match), arena.observe(encoder)[0].numpy()


def legal_logits(who: PolicyPlayer, obs: np.ndarray) -> np.ndarray:
    """The policy's own masked logits of the four moves on the board."""
    observations = torch.from_numpy(obs)
    logits = mask_reversal(who.actor(observations)[..., :4], observations, who.encoder).numpy()
    at = who.encoder.orientation_at
    return logits if at is None else np.take_along_axis(logits, LOCAL_ACTIONS[obs[..., at]], -1)


def margins(logits: np.ndarray) -> np.ndarray:
    """The difference between the best and the second best logit."""
    best = np.sort(logits, -1)
    return best[..., -1] - best[..., -2]

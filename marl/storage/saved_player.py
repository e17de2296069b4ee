"""Trained players from files: a run, a checkpoint, a snapshot, or a champion that comes with the program."""

from pathlib import Path

from arena.errors import ArenaError
from marl.errors import UserError
from marl.storage import checkpoint, checkpoint_finder, snapshot
from marl.storage.policy_player import PolicyPlayer, policy_player
from marl.storage.run_folder import run_of
from marl.storage.run_imports import import_of_run
from opponents.players import champion


def load_policy(path: str) -> PolicyPlayer:
    """The team of a run (its `best`), a checkpoint, a pointer file or a snapshot, by path; or a champion, by name."""
    frozen = champion(path)
    if frozen is not None or path.endswith(snapshot.SUFFIX):
        return snapshot.read(frozen or Path(path), path)
    found = checkpoint.read(checkpoint_finder.resolve(Path(path), prefer=checkpoint.BEST))
    weights = {key.removeprefix("actor."): t for key, t in found.weights.items() if key.startswith("actor.")}
    missing = import_of_run(run_of(found.path))
    try:
        return policy_player(found.manifest, weights, str(found.path), path.rstrip("/"))
    except (UserError, ArenaError):
        if missing:  # the likely reason; a team may well play without the reward that it was trained with
            raise UserError(missing) from None
        raise

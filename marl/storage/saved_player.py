"""Trained players from files: a run, a checkpoint, a snapshot, or a champion that comes with the program."""

from pathlib import Path

from marl.networks.policy import build_actor
from marl.storage import checkpoint, checkpoint_finder, snapshot
from marl.storage.policy_player import PolicyPlayer
from opponents.players import champion


def load_policy(path: str) -> PolicyPlayer:
    """The team of a run (its `best`), a checkpoint, a pointer file or a snapshot, by path; or a champion, by name."""
    frozen = champion(path)
    if frozen is not None or path.endswith(snapshot.SUFFIX):
        return snapshot.read(frozen or Path(path), path)
    found = checkpoint.read(checkpoint_finder.resolve(Path(path), prefer=checkpoint.BEST))
    weights = {key.removeprefix("actor."): t for key, t in found.weights.items() if key.startswith("actor.")}
    actor, encoder = build_actor(found.manifest, weights, str(found.path))
    return PolicyPlayer(actor, encoder, path.rstrip("/"))

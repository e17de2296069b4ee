"""Players from files: the team of a run, of a checkpoint, or of a snapshot, and the champions."""

from pathlib import Path

from marl.networks.policy import PolicyPlayer, build_actor
from marl.storage import checkpoint, snapshot
from opponents.players import champion


def load_player(path: str) -> PolicyPlayer:
    """The team that a run folder (its `best`), a checkpoint folder, a pointer file in it or a snapshot holds; or a
    champion's name."""
    frozen = champion(path)
    if frozen is not None or path.endswith(snapshot.SUFFIX):
        return snapshot.read(frozen or Path(path), path)
    found = checkpoint.load(checkpoint.resolve(Path(path), prefer=checkpoint.BEST))
    weights = {key.removeprefix("actor."): t for key, t in found.weights.items() if key.startswith("actor.")}
    actor, encoder = build_actor(found.manifest, weights, str(found.path))
    return PolicyPlayer(actor, encoder, path.rstrip("/"))

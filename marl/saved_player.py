"""Players from files: the team of a run, of a checkpoint, or of a snapshot."""

from pathlib import Path

from arena.batch import encoder_named
from marl import checkpoint
from marl.errors import UserError
from marl.networks import Actor
from marl.policy import PolicyPlayer


def load_player(path: str) -> PolicyPlayer:
    """The team that a run folder (its `best`), a checkpoint folder or a pointer file in it holds."""
    found = checkpoint.load(checkpoint.resolve(Path(path), prefer=checkpoint.BEST))
    about = found.manifest
    encoder = encoder_named(about.get("encoder"))
    if encoder.version != about.get("encoder_version"):
        raise UserError(
            f"{found.path} was trained on version {about.get('encoder_version')} of encoder {encoder.name}; "
            f"this program has version {encoder.version}: train again, or use the program it was trained with"
        )
    weights = {key.removeprefix("actor."): t for key, t in found.weights.items() if key.startswith("actor.")}
    try:
        actor = Actor(encoder, about["body"])
        actor.load_state_dict(weights)
    except (RuntimeError, KeyError, TypeError):
        raise UserError(f"{found.path}: its weights are not those of the network that it names") from None
    return PolicyPlayer(actor.requires_grad_(False), encoder, path.rstrip("/"))

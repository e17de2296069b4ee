"""The player of a training run in progress: always its newest checkpoint."""

from pathlib import Path

from marl.errors import UserError
from marl.storage.checkpoint import MANIFEST
from marl.storage.checkpoint_finder import resolve
from marl.storage.policy_player import PolicyPlayer
from marl.storage.run_folder import GROUP, newest
from marl.storage.saved_player import load_player


class LatestCheckpoint:
    """Supplies the player for the next match: the newest checkpoint of a run, loaded again when it has changed."""

    def __init__(self, path: Path) -> None:
        if (path / GROUP).is_dir():  # the folder of all runs stands for the run started last
            path = newest(path) or path
        self.run = path
        self._loaded: tuple[Path, int] | None = None
        self._player: PolicyPlayer | None = None

    def __call__(self) -> tuple[PolicyPlayer, str]:
        """The player, and a note if it changed. If the newest checkpoint cannot be loaded, the player before stays."""
        try:
            folder = resolve(self.run)
            found = folder, (folder / MANIFEST).stat().st_mtime_ns
            if found != self._loaded:
                player = load_player(str(folder))
                player.name = f"{self.run.name} {folder.name}"
                note = "" if self._player is None else f"new checkpoint: {folder.name}"
                self._loaded, self._player = found, player
                return player, note
        except (UserError, OSError) as error:
            if self._player is None:
                raise UserError(f"--watch: {error}") from None
            return self._player, f"still {self._player.name}: {error}"
        return self._player, ""

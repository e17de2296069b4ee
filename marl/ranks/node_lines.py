"""What a node prints whose ranks do not include rank 0: who its ranks are, and how they end. Rank 0 prints the rest."""

import socket
import sys

from marl.ranks import environment, rank_log
from marl.ranks.process_group import Ranks, Solo


class NodeLines:
    """One rank's view of its node. Only the first rank of a node without rank 0 prints; log files get all lines."""

    def __init__(self, group: Solo | Ranks) -> None:
        """A collective."""
        found = environment.read_rank_environment()
        self._main_host = group.broadcast(socket.gethostname())
        self._world = group.world
        self._prints = not group.is_main and environment.is_first_on_node()
        first = group.rank - (found.local_rank if found else 0)
        last = first + (found.local_world if found else 1) - 1
        self._who = f"rank {first}" if first == last else f"ranks {first} to {last}"

    def begin(self, where: object) -> None:
        """where: the folder of the run."""
        self._tell(
            f"{self._who} of {self._world} on {socket.gethostname()}: training {where}; rank 0 on {self._main_host} "
            "prints the progress"
        )

    def end(self, why: str, episodes: int) -> None:
        """why: the reason for which a training has ended, as `Trainer.run` names it."""
        self._tell(f"{self._who} of {self._world} on {socket.gethostname()}: ended by {why} at episode {episodes:,}")

    def _tell(self, text: str) -> None:
        rank_log.write(text)
        if self._prints:
            print(f"snakes: {text}", file=sys.stderr, flush=True)

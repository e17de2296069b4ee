"""Who takes part in a league or is graded: players by name, and those found in folders, where some may be broken.

A broken player of a folder is left out with its cause; one that the user has named is a mistake to be told.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from arena.errors import ArenaError, printable
from opponents.match import open_player
from opponents.players import Loader, Player, is_submission
from opponents.submission import SANDBOXED, Submission, SubmissionOptions


@dataclass(frozen=True)
class Entry:
    """A player that is yet to be opened."""

    name: str  # as `players.find` takes it
    label: str | None = None  # what it is called in the tables; None: as it calls itself
    problem: str | None = None  # why it cannot play, if that is known without opening it

    @property
    def was_found(self) -> bool:
        """Whether it was found in a folder, and not named."""
        return self.label is not None


@dataclass(frozen=True)
class BrokenEntry:
    """An entry that cannot play, and why."""

    label: str
    cause: str


def open_entries(
    entries: Sequence[Entry],
    opened: ExitStack,
    loader: Loader | None = None,
    submissions: SubmissionOptions = SANDBOXED,
) -> tuple[list[Player], list[BrokenEntry]]:
    """The players, loaded, under their labels; and those found in folders that are broken."""
    players: list[Player] = []
    broken: list[BrokenEntry] = []
    for entry in entries:
        found = open_entry(entry, opened, loader, submissions)
        if isinstance(found, BrokenEntry):
            broken.append(found)
        else:
            players.append(found)
    return players, broken


def open_entry(
    entry: Entry, opened: ExitStack, loader: Loader | None = None, submissions: SubmissionOptions = SANDBOXED
) -> Player | BrokenEntry:
    """The player of one entry, or why it cannot play. ValueError: a named one is broken, or there is no sandbox."""
    if entry.problem is not None:
        return BrokenEntry(printable(entry.label or entry.name), entry.problem)
    if not entry.was_found:
        player = open_player(entry.name, opened, loader, submissions)
        load_submission(player)
        return player
    if is_submission(entry.name):
        player = open_player(entry.name, opened, loader, submissions)  # what fails here is no fault of the file
        player.name = printable(entry.label)
        try:
            load_submission(player)
        except ArenaError as error:
            return BrokenEntry(player.name, _cause(error))
        return player
    try:
        player = open_player(entry.name, opened, loader, submissions)
    except ValueError as error:  # of a damaged run, checkpoint or snapshot, in one line
        return BrokenEntry(printable(entry.label), _cause(error))
    player.name = printable(entry.label)
    return player


def load_submission(player: Player) -> None:
    """ArenaError if the player is a submission whose file cannot be loaded: told before any match."""
    if isinstance(player, Submission):
        player.load()


def _cause(error: Exception) -> str:
    """The cause alone, in one line: the label says which file."""
    text = str(error)
    if text.startswith("submission "):
        text = text.partition("': ")[2] or text.partition('": ')[2] or text
    return printable(" ".join(text.split()))

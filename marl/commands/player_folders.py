"""Players in folders: every submission, exported team, run and checkpoint in them, labelled by its folder's name.

homework/李四/submission.py         李四
homework/zhang/checkpoints/...      zhang (a run: its best checkpoint)
homework/wang/team.safetensors      wang
homework/a/v2/submission.py         v2, or a/v2 if there is another v2
"""

import glob
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from marl.errors import UserError
from marl.storage.checkpoint import FOLDER as CHECKPOINTS
from marl.storage.checkpoint import MANIFEST
from marl.storage.snapshot import SUFFIX as SNAPSHOT
from opponents.league_entries import Entry
from opponents.players import SUBMISSION

DEEPEST = 6  # folders below the one that is searched
NOTHING = f"there is no {SUBMISSION}, run, checkpoint or {SNAPSHOT} in it"
Found = tuple[Path, str | None]  # a player's file or folder, and why it cannot play
PATTERN = "*?["  # letters that make a name a pattern


def entries_of(names: Sequence[str], folders: Sequence[Path] = (), are_several_words: bool = False) -> list[Entry]:
    """The players of these names, and all players in these folders, in the order of their paths.

    A name that is a pattern (`homework/*`) or a folder of players stands for all that it holds. are_several_words: the
    names are those that a shell makes of a pattern, so every path among them is taken like one of a pattern. What a
    folder or pattern holds besides players is an entry with a problem.
    """
    named: list[Entry] = []
    found: list[Found] = []
    for name in names:
        path = Path(name)
        if path.exists() and (are_several_words or _is_folder_of_players(path)):
            found += _found_at(path)
        elif set(name) & set(PATTERN) and not path.exists():
            matches = sorted(glob.glob(name))
            if not matches:
                raise UserError(f"players {name!r}: no file or folder matches this pattern")
            found += [each for match in matches for each in _found_at(Path(match))]
        else:
            named.append(Entry(name))
    found += [each for folder in folders for each in _found_in(folder)]
    return named + _labelled(found, [entry.name for entry in named])


def _found_in(folder: Path) -> list[Found]:
    """The players in a folder of players; a subfolder without any has a problem. Of a run: its checkpoints."""
    if not folder.is_dir():
        what = "that is a file; need a folder" if folder.exists() else "there is no such folder"
        raise UserError(f"{folder}: {what}")
    is_run = (folder / CHECKPOINTS).is_dir()
    places = [folder / CHECKPOINTS] if is_run else [*_own_players(folder), *_subfolders(folder)]
    if not places:
        raise UserError(f"{folder}: {NOTHING}, nor in its subfolders")
    return [each for place in places for each in _found_at(place)]


def _is_folder_of_players(path: Path) -> bool:
    return path.is_dir() and not _is_player(path) and any(_players_under(path, DEEPEST))


def _labelled(found: Sequence[Found], names: Collection[str]) -> list[Entry]:
    """Entries with different labels: the name of each one's folder, with as many folders above it as are needed."""
    # Each place once. Links are not followed: two students who hand in one file are two players.
    different = {os.path.abspath(_place(path)): (path, problem) for path, problem in found}
    found, parts = list(different.values()), [Path(place).parts for place in different]
    used = [1] * len(parts)
    while True:
        labels = [os.sep.join(of[-count:]) for of, count in zip(parts, used, strict=True)]
        counts = Counter([*labels, *names])
        clashing = [i for i, label in enumerate(labels) if counts[label] > 1 and used[i] < len(parts[i])]
        if not clashing:
            return [Entry(str(path), label, problem) for (path, problem), label in zip(found, labels, strict=True)]
        for i in clashing:
            used[i] += 1


def _found_at(path: Path) -> list[Found]:
    """The players at a path and below it, or why there is none."""
    if path.is_file():
        return [(path, None if _is_player_file(path) else f"it is no {SUBMISSION} and no {SNAPSHOT}")]
    return [(each, None) for each in _players_under(path, DEEPEST)] or [(path, NOTHING)]


def _players_under(folder: Path, depth: int) -> Iterator[Path]:
    """The players in a folder and below it; not those inside a player, such as the checkpoints of a run."""
    if _is_player(folder):
        yield folder
        return
    yield from _own_players(folder)
    if depth:
        for below in _subfolders(folder):
            yield from _players_under(below, depth - 1)


def _own_players(folder: Path) -> list[Path]:
    """The files that are players and lie in the folder itself; what lies beside a submission belongs to it."""
    files = sorted(path for path in _listed(folder) if _is_player_file(path))
    return [path for path in files if path.name == SUBMISSION] or files


def _is_player(folder: Path) -> bool:
    """Whether the folder is one player: a submission's, a run, or a checkpoint."""
    return any((folder / name).is_file() for name in (SUBMISSION, MANIFEST)) or (folder / CHECKPOINTS).is_dir()


def _is_player_file(path: Path) -> bool:
    return path.is_file() and (path.name == SUBMISSION or path.suffix == SNAPSHOT)


def _subfolders(folder: Path) -> list[Path]:
    hidden = (".", "__")  # .git, __pycache__, __MACOSX
    return sorted(path for path in _listed(folder) if path.is_dir() and not path.name.startswith(hidden))


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # it may not be read: then nothing of it can play
        return []


def _place(path: Path) -> Path:
    """What the label of a player is made of: its folder, or the file itself if others lie beside it."""
    if path.is_dir() or not _is_player_file(path):
        return path
    if path.name == SUBMISSION:
        return path.parent
    return path.parent if len(_own_players(path.parent)) == 1 else path.with_suffix("")

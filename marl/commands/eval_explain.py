"""`eval --explain`: why home lost, as text and tables, and as files: a picture, the most telling matches, a page."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from marl.cli.progress_bar import ProgressBar

if TYPE_CHECKING:
    from arena.replay import Replay
    from marl.analysis.explanation import Explanation
    from opponents.results import Results

TEXT, PICTURE, PAGE = "explanation.txt", "explanation.png", "explanation.html"


class Explained(NamedTuple):
    """The explanation of a command's results."""

    lines: list[str]
    tables: dict[str, Any]  # for JSON


def explain(results: "Results", seed: int, folder: Path | None) -> Explained:
    """Explain the lost matches of results that kept them; with a folder, write the files, too."""
    from marl.analysis.explanation import Explanation
    from marl.analysis.losses import play_again

    assert results.lost is not None
    with ProgressBar("why lost") as bar:
        lost = play_again(results.lost, seed, bar.show)
    explanation = Explanation(results.matches, results.home_forfeits, lost)
    lines, tables = explanation.text(), explanation.as_dict()
    if folder is not None:
        files = _write(explanation, results, seed, folder)
        lines += [f"{'files' if i == 0 else '':14} {path}" for i, path in enumerate(files)]
        tables["files"] = [str(path) for path in files]
    return Explained(lines, tables)


def _write(explanation: "Explanation", results: "Results", seed: int, folder: Path) -> list[Path]:
    """Write the files of an explanation; returns their paths."""
    from arena.files import cannot_write, write_user_file
    from arena.render.page import page
    from arena.replay import write
    from marl.pictures.canvas import save_png
    from marl.pictures.explanation import draw

    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    title = (
        f"{results.home} against {results.away}: {len(explanation.lost):,} of {results.matches:,} matches, seed {seed}"
    )
    files = [folder / TEXT]
    write_user_file(folder / TEXT, "\n".join([title, *explanation.text(), ""]))
    if not explanation.lost:
        return files
    save_png(folder / PICTURE, draw(title, explanation.as_dict(), explanation.mean_leads))
    files.append(folder / PICTURE)
    replays = []
    for number, (match, _) in enumerate(explanation.telling, start=1):
        replays.append(_replay(results, seed, match.index))
        files.append(folder / f"lost{number}.jsonl")
        write(files[-1], replays[-1])
    if replays:
        files.append(folder / PAGE)
        write_user_file(folder / PAGE, page(replays, turn=explanation.telling[0][1].turn - 1))
    return files


def _replay(results: "Results", seed: int, index: int) -> "Replay":
    from arena.replay import Replay, today

    assert results.lost is not None
    sides = (results.home, results.away)
    red, blue = sides[::-1] if results.lost.sides[index] else sides
    actions = results.lost.actions[:, index]
    replay = Replay.from_actions(seed, int(results.lost.numbers[index]), None, actions, red=red, blue=blue)
    return replace(replay, date=today())

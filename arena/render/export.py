"""Writes recorded matches as PNG, GIF, MP4 or HTML. (marl/export writes policies.)

The pictures are those of frame.py, with the names of the players below.
"""

import io
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from arena.errors import ArenaError
from arena.extras import install_hint
from arena.files import atomic_path, cannot_write, write_user_file
from arena.jidi_log import JidiLog
from arena.printable import printable
from arena.render import frame
from arena.render.page import page
from arena.replay import Replay

Match = Replay | JidiLog
FPS = 8.0  # turns per second
FPS_MIN, FPS_MAX = 0.25, 50.0  # many programs show a faster GIF more slowly
REST_SECONDS = 2.0  # on the last turn, before a GIF begins again

PNG_CELL, SHEET_CELL, MP4_CELL = 48, 16, 32  # pixels
SHEET_COLUMNS, SHEET_ROWS, SHEET_GAP = 3, 4, 8
GIF_CELLS = (20, 16, 12)  # pixels; the first size whose file is small enough is taken
GIF_BYTES_MAX, MP4_BYTES_MAX = 1_900_000, 900_000


def png(path: str | os.PathLike, match: Match, turn: int | None = None) -> None:
    """A picture of one turn; without `turn`, a sheet of several turns from the start to the end."""
    states = match.states()
    if turn is None:
        image = _sheet(states, match)
    else:
        image = Image.fromarray(_picture(state_at(states, turn), match, PNG_CELL))
    write_user_file(path, _saved(image, "PNG", optimize=True))


def gif(path: str | os.PathLike, match: Match, fps: float = FPS) -> None:
    """The whole match as an animated GIF."""
    write_user_file(path, gif_bytes(match, fps))


def gif_bytes(match: Match, fps: float = FPS, cells: Sequence[int] = GIF_CELLS) -> bytes:
    """An animated GIF, in the first of the cell sizes whose file has at most GIF_BYTES_MAX bytes."""
    _check_fps(fps)
    states = match.states()
    palette = Image.new("P", (1, 1))
    palette.putpalette(list(chain.from_iterable(_palette())))
    durations = [round(100 / fps) * 10] * (len(states) - 1) + [round(1000 * REST_SECONDS)]
    for cell in cells:
        pictures = (Image.fromarray(picture) for picture in _pictures(states, match, cell))
        first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
        # Pillow stores only the part of each picture that differs from the picture before.
        data = _saved(first, "GIF", save_all=True, append_images=rest, duration=durations, loop=0)
        if len(data) <= GIF_BYTES_MAX:
            break
    return data


def mp4(path: str | os.PathLike, match: Match, fps: float = FPS) -> None:
    """The whole match as an MP4 file (H.264), which phones and browsers play."""
    _check_fps(fps)
    check_video()
    import imageio_ffmpeg

    states = match.states()
    height, width, _ = _picture(states[0], match, MP4_CELL).shape
    rate = round(8 * MP4_BYTES_MAX * fps / len(states))  # bits per second, where constant quality would need more
    # faststart: the index in front, so that a player need not wait for the end of the file.
    extra = ["-crf", "25", "-maxrate", f"{rate}", "-bufsize", f"{2 * rate}", "-movflags", "+faststart", "-f", "mp4"]
    try:
        with atomic_path(path) as draft:
            writer = imageio_ffmpeg.write_frames(
                str(draft), (width, height), fps=fps, quality=None, macro_block_size=2, output_params=extra
            )
            writer.send(None)
            for picture in _pictures(states, match, MP4_CELL):
                writer.send(picture.tobytes())
            writer.close()
            if not draft.exists():
                raise OSError("ffmpeg wrote nothing")
    except OSError as error:
        raise cannot_write(path, error) from None


def check_video() -> None:
    """ArenaError if the package that MP4 files need is not installed."""
    try:
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise ArenaError(f"MP4 files need imageio-ffmpeg (or make a GIF); {install_hint('video')}") from None


def html(path: str | os.PathLike, matches: Sequence[Match], turn: int = 0) -> None:
    """Matches as one page without network and server, opened at a turn."""
    for match in matches if turn else ():
        state_at(match.states(), turn)
    write_user_file(path, page(matches, turn))


def state_at(states: Sequence[dict[str, Any]], turn: int) -> dict[str, Any]:
    """The state of a turn; ArenaError if the match has no such turn."""
    first, last = states[0]["turn"], states[-1]["turn"]
    if not first <= turn <= last:
        raise ArenaError(f"turn is {turn}; this match has turns {first} to {last}")
    return states[turn - first]


def _pictures(states: Sequence[dict[str, Any]], match: Match, cell: int) -> Iterator[np.ndarray]:
    caption = _caption(match, frame.COLUMNS * cell, max(11, cell * 3 // 4))
    for state in states:
        yield np.concatenate([frame.frame(state, cell), caption])


def _picture(state: dict[str, Any], match: Match, cell: int) -> np.ndarray:
    return next(_pictures([state], match, cell))


def _caption(match: Match, width: int, size: int) -> np.ndarray:
    """The line of player names [H, W, 3] in letters of `size` pixels, red on the left and blue on the right."""
    height = size * 7 // 4 // 2 * 2  # even, for video files
    image = Image.new("RGB", (width, height), frame.STRIP_COLOUR)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    for name, anchor, x, colour in (
        (match.red, "lm", size // 2, frame.TEAM_COLOURS[0]),
        (match.blue, "rm", width - size // 2, frame.TEAM_COLOURS[1]),
    ):
        text = printable(name)
        while font.getlength(text) > width * 0.46:  # the end of a path tells more than its beginning
            text = "..." + text.removeprefix("...")[max(1, len(text) // 20) :]
        draw.text((x, height // 2), text, colour, font, anchor)
    return np.asarray(image)


def _sheet(states: Sequence[dict[str, Any]], match: Match) -> Image.Image:
    count = min(SHEET_COLUMNS * SHEET_ROWS, len(states))
    shown = [states[round(i * (len(states) - 1) / max(1, count - 1))] for i in range(count)]
    pictures = [frame.frame(state, SHEET_CELL) for state in shown]
    height, width, _ = pictures[0].shape
    across = min(SHEET_COLUMNS, count)
    size = (across * (width + SHEET_GAP) + SHEET_GAP, -(-count // across) * (height + SHEET_GAP) + SHEET_GAP)
    caption = Image.fromarray(_caption(match, size[0] - 2 * SHEET_GAP, SHEET_CELL))
    sheet = Image.new("RGB", (size[0], size[1] + caption.height), frame.STRIP_COLOUR)
    sheet.paste(caption, (SHEET_GAP, size[1]))
    for i, picture in enumerate(pictures):
        row, column = divmod(i, across)
        corner = (SHEET_GAP + column * (width + SHEET_GAP), SHEET_GAP + row * (height + SHEET_GAP))
        sheet.paste(Image.fromarray(picture), corner)
    return sheet


def _palette() -> list[tuple[int, int, int]]:
    """The colours of a GIF: all colours of frame.py, shades from head to tail, and mixed colours for smooth edges."""
    board = frame.BOARD_COLOURS[0]
    colours = [*frame.BOARD_COLOURS, frame.STRIP_COLOUR, frame.TEXT_COLOUR, frame.BEAN_COLOUR]
    colours += [frame.EYE_COLOUR, frame.PUPIL_COLOUR, *frame.TEAM_COLOURS]
    colours += [frame.blend(board, frame.BEAN_COLOUR, share) for share in (0.05, 0.1, 0.15, 0.5)]
    for colour in frame.SNAKE_COLOURS:
        colours += [frame.blend((0, 0, 0), colour, shade) for shade in np.linspace(1, frame.TAIL_SHADE, 5)]
        colours += [frame.blend(board, colour, share) for share in (0.25, 0.5)]
    return list(dict.fromkeys(colours))


def _saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    data = io.BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def _check_fps(fps: float) -> None:
    if not FPS_MIN <= fps <= FPS_MAX:
        raise ArenaError(f"fps is {fps:g}; allowed: {FPS_MIN:g} to {FPS_MAX:g} turns per second")

"""Writes recorded matches as PNG, GIF, MP4 or HTML. (marl/export writes policies.)

The pictures are those of frame.py: several per turn in a GIF or MP4, and the result at the end.
"""

import io
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from PIL import Image

from arena.errors import ArenaError
from arena.extras import install_hint
from arena.files import atomic_path, cannot_write, write_user_file
from arena.jidi_log import JidiLog
from arena.render.frame import Film, palette
from arena.render.page import page
from arena.render.theme import CELL_MIN, STRIP_COLOUR
from arena.render.timeline import Timeline, recorded_timeline
from arena.replay import Replay

Match = Replay | JidiLog
FPS = 8.0  # turns per second
FPS_MIN, FPS_MAX = 0.25, 50.0  # many programs show a faster GIF more slowly
GIF_RATE_MAX = 25.0  # pictures per second
SCALE_MIN, SCALE_MAX = 0.5, 4.0
REST_SECONDS = 2.0  # the end card, before a GIF begins again
VIDEO_RATE = 30.0  # pictures per second, at least: there are several for a turn

PNG_CELL, SHEET_CELL, MP4_CELL = 48, 16, 32  # pixels
SHEET_COLUMNS, SHEET_ROWS, SHEET_GAP = 3, 4, 8
SHEET_COLOUR = (40, 45, 58)  # between the pictures of a sheet
GIF_SIZES = (
    (20, 2),
    (16, 2),
    (20, 1),
    (16, 1),
    (12, 1),
)  # pixels of a cell, pictures per turn; the first small enough is taken
GIF_BYTES_MAX, MP4_BYTES_MAX = 1_900_000, 900_000
SAMPLES, ESTIMATE_MAX = 10, 1.5  # pairs of pictures that estimate the size of a GIF; how far above the limit is too far


def png(path: str | os.PathLike, match: Match, turn: int | None = None, scale: float = 1.0) -> None:
    """A picture of one turn; without `turn`, a sheet of several turns from the start to the end."""
    timeline = recorded_timeline(match)
    if turn is None:
        image = _sheet(timeline, _scaled(SHEET_CELL, scale))
    else:
        states = match.states()
        state_at(states, turn)
        image = Image.fromarray(Film(timeline, _scaled(PNG_CELL, scale)).picture(turn - states[0]["turn"]))
    write_user_file(path, _saved(image, "PNG", optimize=True))


def gif(path: str | os.PathLike, match: Match, fps: float = FPS, scale: float | None = None) -> None:
    """The whole match as an animated GIF. With `scale` the file may be larger than GIF_BYTES_MAX."""
    sizes = GIF_SIZES if scale is None else ((_scaled(GIF_SIZES[0][0], scale), GIF_SIZES[0][1]),)
    write_user_file(path, gif_bytes(match, fps, sizes))


def gif_bytes(match: Match, fps: float = FPS, sizes: Sequence[tuple[int, int]] = GIF_SIZES) -> bytes:
    """An animated GIF in the first of the sizes (pixels of a cell, pictures per turn) of at most GIF_BYTES_MAX bytes.

    The sizes after the first are for matches with long snakes, whose pictures are large.
    """
    _check_fps(fps)
    timeline = recorded_timeline(match)
    for i, (cell, motion) in enumerate(sizes):
        motion, drawn = min(motion, max(1, int(GIF_RATE_MAX / fps))), Film(timeline, cell)
        count = (len(timeline.turns) - 1) * motion
        if i < len(sizes) - 1 and count > 3 * SAMPLES:  # do not draw a whole film that is far too large
            starts = (round(k * (count - 1) / SAMPLES) for k in range(SAMPLES))
            sample = drawn.pictures([(start + k) / motion for start in starts for k in (0, 1)])
            # Every second picture differs from the one before as in the film, the others by more.
            if len(_animated(sample, 100)) / (2 * SAMPLES) * count > ESTIMATE_MAX * GIF_BYTES_MAX:
                continue
        data = _animated(_pictures(drawn, timeline, motion), round(100 / fps / motion) * 10)
        if len(data) <= GIF_BYTES_MAX:
            break
    return data


def mp4(path: str | os.PathLike, match: Match, fps: float = FPS, scale: float = 1.0) -> None:
    """The whole match as an MP4 file (H.264), which phones and browsers play."""
    _check_fps(fps)
    check_video()
    import imageio_ffmpeg

    timeline = recorded_timeline(match)
    drawn = Film(timeline, _scaled(MP4_CELL, scale))
    motion = max(1, math.ceil(VIDEO_RATE / fps))
    seconds = len(timeline.turns) / fps + REST_SECONDS
    rate = round(8 * MP4_BYTES_MAX * scale**2 / seconds)  # bits per second, where constant quality would need more
    # faststart: the index in front, so that a player need not wait for the end of the file.
    extra = ["-crf", "25", "-maxrate", f"{rate}", "-bufsize", f"{2 * rate}", "-movflags", "+faststart", "-f", "mp4"]
    try:
        with atomic_path(path) as draft:
            writer = imageio_ffmpeg.write_frames(
                str(draft), drawn.size, fps=fps * motion, quality=None, macro_block_size=2, output_params=extra
            )
            writer.send(None)
            for picture in _pictures(drawn, timeline, motion):
                data = picture.tobytes()
                writer.send(data)
            for _ in range(round(REST_SECONDS * fps * motion) - 1):  # the end card stays
                writer.send(data)
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


def _pictures(drawn: Film, timeline: Timeline, motion: int) -> Iterator[np.ndarray]:
    """The pictures of a film: `motion` of them per turn, and the end card."""
    last = len(timeline.turns) - 1
    yield from drawn.pictures([step / motion for step in range(last * motion)])
    yield drawn.end_card()


def _animated(pictures: Iterable[np.ndarray], duration: int) -> bytes:
    """An animated GIF of pictures that are shown for `duration` milliseconds each, the last one longer."""
    colours = palette()
    used, before = Image.new("P", (1, 1)), None
    used.putpalette(bytes(chain.from_iterable(colours)))
    unchanged = len(colours)  # the largest number of a colour: it leaves a pixel as it is
    all_colours = bytes(chain.from_iterable((*colours, STRIP_COLOUR)))
    stored = []
    for picture in pictures:
        image = Image.fromarray(picture).quantize(palette=used, dither=Image.Dither.NONE)
        pixels = np.asarray(image)
        same = np.zeros_like(pixels) if before is None else (pixels == before).view(np.uint8)
        stored.append(Image.frombytes("P", image.size, np.maximum(pixels, same * np.uint8(unchanged)).tobytes()))
        stored[-1].putpalette(all_colours)
        before = pixels
    durations = [duration] * (len(stored) - 1) + [round(1000 * REST_SECONDS)]
    # Of each picture, Pillow stores the part with changes. `optimize` would look for them once more.
    options = {"save_all": True, "loop": 0, "transparency": unchanged, "optimize": False, "disposal": 1}
    return _saved(stored[0], "GIF", append_images=stored[1:], duration=durations, **options)


def _sheet(timeline: Timeline, cell: int) -> Image.Image:
    last, drawn = len(timeline.turns) - 1, Film(timeline, cell)
    count = min(SHEET_COLUMNS * SHEET_ROWS, last + 1)
    pictures = drawn.pictures([round(i * last / max(1, count - 1)) for i in range(count)])
    (width, height), across = drawn.size, min(SHEET_COLUMNS, count)
    size = (across * (width + SHEET_GAP) + SHEET_GAP, -(-count // across) * (height + SHEET_GAP) + SHEET_GAP)
    sheet = Image.new("RGB", size, SHEET_COLOUR)
    for i, picture in enumerate(pictures):
        row, column = divmod(i, across)
        sheet.paste(
            Image.fromarray(picture), (SHEET_GAP + column * (width + SHEET_GAP), SHEET_GAP + row * (height + SHEET_GAP))
        )
    return sheet


def _scaled(cell: int, scale: float) -> int:
    """Pixels of a cell; ArenaError for a scale that is not allowed."""
    if not SCALE_MIN <= scale <= SCALE_MAX:
        raise ArenaError(f"scale is {scale:g}; allowed: {SCALE_MIN:g} to {SCALE_MAX:g}")
    return max(CELL_MIN, round(cell * scale))


def _saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    data = io.BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def _check_fps(fps: float) -> None:
    if not FPS_MIN <= fps <= FPS_MAX:
        raise ArenaError(f"fps is {fps:g}; allowed: {FPS_MIN:g} to {FPS_MAX:g} turns per second")

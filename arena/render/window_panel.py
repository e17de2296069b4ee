"""The parts around the board: players and scores above it, scrub bar and speed below it, and the help."""

import pygame

from arena.render.layout import Layout
from arena.render.playback import Playback
from arena.render.theme import BEAN_COLOUR, SNAKE_COLOURS, STRIP_COLOUR, TEAM_COLOURS, TEXT_COLOUR
from arena.render.window_board import Board
from arena.render.window_buttons import Button, ButtonRow
from arena.render.window_sprites import text
from arena.rules import LEFT, RIGHT, SNAKES, TEAM

FAINT = (128, 135, 152)
TRACK, PLAYED = (40, 45, 58), (76, 84, 104)

HELP = (
    ("space", "pause, resume; at the end: from the beginning"),
    (". ,", "one turn forward, back; arrows too, if they do not steer"),
    ("+ -", "faster, slower: 0.25x to 64x"),
    ("x X", "jump to just before the next, previous death"),
    ("b B", "jump to just before the next, previous bean eaten"),
    ("home end", "first turn, last turn"),
    ("mouse", "buttons and bar; click a snake above to follow it"),
    ("0 - 5", "follow a snake; the same key again: stop"),
    ("o", "probabilities of the policies' moves"),
    ("n p", "next match, previous match"),
    ("c  or  F12", "picture of the window as PNG file"),
    ("?  or  F1", "this help, which pauses; esc closes it, and stops following"),
    ("q", "quit"),
)
HUMAN_HELP = ("arrows, WASD", "steer your snake; of two, WASD is for the second")


class Panel:
    """Draws the parts around the board for one layout."""

    def __init__(self, layout: Layout, board: Board) -> None:
        self._layout, self._board = layout, board
        self.chips: list[pygame.Rect] = []  # the field of each snake above the board
        self.buttons = ButtonRow(layout)

    def draw_head(self, target: pygame.Surface, playback: Playback, place: str, followed: int | None) -> None:
        """Names, scores, turn and the gain of every snake: the gains of a team add up to its score."""
        layout, timeline, index = self._layout, playback.timeline, playback.index
        cell, box = layout.cell, pygame.Rect(layout.head)
        lengths, scores = timeline.lengths(index), timeline.team_scores(index)
        edge, middle = round(0.4 * cell), box.top + round(0.62 * cell)
        turn = text(f"turn {timeline.turns[index].state['turn']}", layout.text(0.62), TEXT_COLOUR)
        area = turn.get_rect(center=(box.centerx, middle))
        target.blit(turn, area)
        if place:
            below = text(place, layout.text(0.36), FAINT)
            target.blit(below, below.get_rect(center=(box.centerx, box.top + round(1.55 * cell))))
        for team, name in enumerate((timeline.red, timeline.blue)):
            score = text(str(scores[team]), layout.text(0.85), TEAM_COLOURS[team])
            words = _fitted(name, layout.text(0.5), area.left - box.left - 3 * edge - score.get_width())
            if team == 0:
                spot = score.get_rect(midleft=(box.left + edge, middle))
                target.blit(words, words.get_rect(midleft=(spot.right + edge, middle)))
            else:
                spot = score.get_rect(midright=(box.right - edge, middle))
                target.blit(words, words.get_rect(midright=(spot.left - edge, middle)))
            target.blit(score, spot)
        values = {snake: output.value for snake, output in timeline.turns[index].policy_outputs.items()}
        self._draw_chips(target, timeline.gains(index), values, timeline.humans, followed)
        bar = pygame.Rect(box.left, box.bottom - max(3, cell // 7), box.width, max(3, cell // 7))
        fraction = round(bar.width * sum(lengths[:TEAM]) / max(1, sum(lengths)))
        target.fill(TEAM_COLOURS[1], bar)
        target.fill(TEAM_COLOURS[0], (bar.left, bar.top, fraction, bar.height))
        target.fill(TEXT_COLOUR, (bar.centerx - 1, bar.top, 2, bar.height))

    def _draw_chips(
        self,
        target: pygame.Surface,
        gains: list[int],
        values: dict[int, float | None],
        humans: tuple[int, ...],
        followed: int | None,
    ) -> None:
        """One field per snake: head, gain, and below it the value by its policy, or "you" for a human's snake."""
        box, cell = pygame.Rect(self._layout.head), self._layout.cell
        width, height = round(2.5 * cell), round(1.05 * cell)
        top = box.top + round(1.15 * cell)
        self.chips = []
        for snake in range(SNAKES):
            if snake < TEAM:
                left = box.left + round(0.2 * cell) + snake * width
            else:
                left = box.right - round(0.2 * cell) - (SNAKES - snake) * width
            chip = pygame.Rect(left, top, width, height)
            self.chips.append(chip)
            if snake == followed:
                pygame.draw.rect(target, TRACK, chip, border_radius=height // 3)
            if snake in humans:
                pygame.draw.rect(target, TEXT_COLOUR, chip, max(1, cell // 24), border_radius=height // 3)
            head = self._board.head(snake, RIGHT if snake < TEAM else LEFT)
            spot = head.get_rect(midleft=(chip.left + round(0.15 * cell), chip.centery))
            target.blit(head, spot)
            value = values.get(snake)
            below = "you" if snake in humans else "" if value is None else f"{value:+.2f}".replace("-", "−")
            left, lift = spot.right + round(0.15 * cell), round(0.17 * cell) if below else 0
            gain = text(f"{gains[snake]:+d}".replace("-", "−"), self._layout.text(0.46), SNAKE_COLOURS[snake])
            target.blit(gain, gain.get_rect(midleft=(left, chip.centery - lift)))
            if below:
                words = text(below, self._layout.text(0.32), TEXT_COLOUR)
                target.blit(words, words.get_rect(midleft=(left, chip.centery + round(0.3 * cell))))

    def draw_foot(
        self, target: pygame.Surface, playback: Playback, hovered: Button | None, pressed: set[int | str]
    ) -> None:
        """The scrub bar with meals and deaths, and the buttons below it."""
        layout, timeline = self._layout, playback.timeline
        cell, track = layout.cell, pygame.Rect(layout.scrub)
        line = track.inflate(0, -round(0.22 * cell))
        pygame.draw.rect(target, TRACK, line, border_radius=3)
        known = pygame.Rect(line.left, line.top, self.along(playback, len(timeline.turns) - 1) - line.left, line.height)
        pygame.draw.rect(target, PLAYED, known, border_radius=3)
        for index, turn in enumerate(timeline.turns):
            x = self.along(playback, index)
            if turn.ate:
                target.fill(BEAN_COLOUR, (x, line.centery, 1, line.height // 2))
            for snake in turn.died:
                above = 0 if snake < TEAM else track.height // 2
                target.fill(TEAM_COLOURS[snake // TEAM], (x - 1, track.top + above, 2, track.height // 2))
        knob = (self.along(playback, playback.position), line.centery)
        pygame.draw.circle(target, TEXT_COLOUR, knob, max(5, round(0.22 * cell)))

        self.buttons.draw(target, playback, hovered, pressed)

    def draw_message(self, target: pygame.Surface, message: str) -> None:
        """A message or a tooltip, at the lower edge of the board."""
        layout, board = self._layout, pygame.Rect(self._layout.board)
        words = _fitted(message, layout.text(0.42), board.width - 2 * layout.cell)
        spot = words.get_rect(midbottom=(board.centerx, board.bottom - round(0.3 * layout.cell)))
        _shade(target, spot.inflate(round(0.6 * layout.cell), round(0.3 * layout.cell)), 235)
        target.blit(words, spot)

    def along(self, playback: Playback, position: float) -> int:
        """The x of a position on the scrub bar."""
        track = self._layout.scrub
        return track.left + round(track.width * position / max(1, playback.timeline.last))

    def scrubbed(self, playback: Playback, x: int) -> int:
        """The turn at an x on the scrub bar."""
        track = self._layout.scrub
        return round((x - track.left) / track.width * playback.timeline.last)

    def draw_result(self, target: pygame.Surface, playback: Playback) -> None:
        """The winner, on top of the board."""
        layout, timeline = self._layout, playback.timeline
        red, blue = timeline.team_scores(playback.index)
        winner = "a draw" if red == blue else f"{'red' if red > blue else 'blue'} wins"
        colour = TEXT_COLOUR if red == blue else TEAM_COLOURS[red < blue]
        words = text(f"{winner}  {red} : {blue}", layout.text(0.9), colour)
        box = pygame.Rect(layout.board)
        spot = words.get_rect(center=(box.centerx, box.top + round(1.5 * layout.cell)))
        _shade(target, spot.inflate(layout.cell, round(0.5 * layout.cell)))
        target.blit(words, spot)

    def draw_help(self, target: pygame.Surface, human: bool) -> None:
        """All keys, on top of the board."""
        layout = self._layout
        lines = (HUMAN_HELP, *HELP) if human else HELP
        box = pygame.Rect(layout.board).inflate(-layout.cell, -round(0.4 * layout.cell))
        _shade(target, box, 242)
        pitch = (box.height - round(0.4 * layout.cell)) / len(lines)
        size = min(layout.text(0.46), round(0.8 * pitch))
        for i, (keys, what) in enumerate(lines):
            middle = box.top + round(0.2 * layout.cell + (i + 0.5) * pitch)
            keys_text = text(keys, size, BEAN_COLOUR)
            target.blit(keys_text, keys_text.get_rect(midright=(box.left + round(0.28 * box.width), middle)))
            what_text = text(what, size, TEXT_COLOUR)
            target.blit(what_text, what_text.get_rect(midleft=(box.left + round(0.31 * box.width), middle)))


def _fitted(words: str, size: int, width: int) -> pygame.Surface:
    """A line of text that fits into `width` pixels. Of a long one the end is kept, which tells paths apart."""
    shown = text(words, size, TEXT_COLOUR)
    while shown.get_width() > width and len(words) > 4:
        words = "…" + words[max(2, len(words) // 12) :]
        shown = text(words, size, TEXT_COLOUR)
    return shown


def _shade(target: pygame.Surface, box: pygame.Rect, alpha: int = 200) -> None:
    veil = pygame.Surface(box.size, pygame.SRCALPHA)
    pygame.draw.rect(veil, (*STRIP_COLOUR, alpha), veil.get_rect(), border_radius=12)
    target.blit(veil, box)

"""The one way to name a snake, for every viewer, message and file.

A snake is named by its number, 0 to 5: "snake 4". Red has 0 to 2, blue has 3 to 5. The number is on the snake's head in
all pictures, it is the key that follows the snake, and it is the index in replay files and arrays. PettingZoo needs
texts as agent names: AGENTS, in the order of the numbers.
"""

from arena.rules import SNAKES, TEAM

TEAMS = ("red", "blue")
AGENTS = ("red_0", "red_1", "red_2", "blue_0", "blue_1", "blue_2")  # snakes 0 to 5


def team_name(snake: int) -> str:
    """The name of a snake's team: red or blue."""
    return TEAMS[snake // TEAM]


def snake_name(snake: int) -> str:
    """The name of a snake: "snake 4"."""
    return f"snake {snake}"


def snake_number(text: str) -> int | None:
    """The snake of a number 0 to 5 or of an agent's name; None for any other text."""
    if text in AGENTS:
        return AGENTS.index(text)
    return int(text) if text in map(str, range(SNAKES)) else None

"""docs/architecture.md: the path of one transition names functions that exist, and is short enough to be read."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
MOST_FILES, MOST_LINES = 6, 600


def path_of_a_transition() -> list[tuple[str, list[str]]]:
    """(file, functions) of each step."""
    section = PAGE.split("## One transition")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| `([^`]+)` \| (.+) \|$", section, re.MULTILINE)
    return [(file, re.findall(r"`([^`]+)`", functions)) for file, functions in rows]


def lines_of(file: str, name: str) -> int:
    """Lines of a function, or of a method Class.name."""
    scope: list[ast.stmt] = ast.parse((ROOT / file).read_text()).body
    for part in name.split("."):
        (found,) = [node for node in scope if getattr(node, "name", None) == part]
        scope = found.body
    return found.end_lineno - found.lineno + 1


def test_the_path_of_a_transition_is_true_and_short() -> None:
    steps = path_of_a_transition()
    assert len(steps) == MOST_FILES
    assert len({file for file, _ in steps}) <= MOST_FILES
    assert sum(lines_of(file, name) for file, names in steps for name in names) <= MOST_LINES


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:arena|opponents|marl|tests)/[\w/]+\.py)`", PAGE))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []

"""docs/rules.md: every turn that it describes is played as described, and its numbers are those of the rules."""

import pytest
from helpers.command import ROOT
from helpers.script import load_script

from arena.rules import BEANS_MAX, COLUMNS, LENGTH_MAX, ROWS, START_LENGTH, TURNS

rule_examples = load_script("rule_examples")
EXAMPLES = rule_examples.read_examples()
PAGE = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_turn_happens_as_described(example) -> None:
    events = example.play().events
    assert example.expected
    for snake, expected in example.expected.items():
        assert {name: events[snake][name] for name in expected} == expected, f"snake {snake}"
    assert (ROOT / "docs" / "pictures" / "rules" / f"{example.name}.png").is_file(), "python scripts/make_docs.py"


def test_no_example_is_left_out() -> None:
    assert len(EXAMPLES) == PAGE.count("```turn")
    assert len(EXAMPLES) >= 8


def test_the_numbers_of_the_page() -> None:
    for text in (
        f"{ROWS} rows and {COLUMNS} columns",
        f"length minus {START_LENGTH}",
        f"after {TURNS} turns",
        f"All bodies together {LENGTH_MAX} cells",
    ):
        assert text in " ".join(PAGE.split())
    assert BEANS_MAX == 5

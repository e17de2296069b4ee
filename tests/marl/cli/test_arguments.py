"""Value types of command-line arguments."""

import argparse

import pytest

from marl.cli.arguments import new_file_ending, parse_whole_number, positive_int, refuse_flags
from marl.errors import UserError


@pytest.mark.parametrize(
    ("text", "least", "expected"),
    [("0", 0, 0), ("7", 0, 7), ("7", 7, 7), ("6", 7, None), ("", 0, None), ("-1", 0, None), ("1.5", 0, None)],
)
def test_whole_numbers(text, least, expected) -> None:
    assert parse_whole_number(text, least) == expected


@pytest.mark.parametrize("text", [" 1", "two", "1e3"])
def test_texts_that_are_no_whole_number(text) -> None:
    assert parse_whole_number(text) is None


def test_a_new_file_ends_as_its_readers_expect(tmp_path) -> None:
    new_png = new_file_ending(".png")
    assert new_png(str(tmp_path / "table.PNG")) == tmp_path / "table.PNG"
    for wrong in ("table.jpg", "png", ".png"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"must end in \.png"):
            new_png(str(tmp_path / wrong))


def test_a_count_starts_at_1() -> None:
    assert positive_int("1") == 1
    with pytest.raises(argparse.ArgumentTypeError, match="'0' is no whole number from 1"):
        positive_int("0")


@pytest.mark.parametrize("words", [["--lr", "1", "--load-model-run", "3"], ["--load-model-run=3"]])
def test_a_refused_flag_is_named_as_the_help_writes_it(words) -> None:
    with pytest.raises(UserError) as error:
        refuse_flags(words, ("--resume", "--load-model-run"), "--seeds", "leave it out")
    assert str(error.value) == "--load_model_run does not go with --seeds; leave it out"


def test_other_flags_and_values_are_not_refused() -> None:
    refuse_flags(["--load-model", "resume", "--run-name=--resume"], ("--resume", "--load"), "--seeds", "leave it out")

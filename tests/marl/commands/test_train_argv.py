"""The command line of `train`, read once: what each flag becomes, and the command that starts the same again."""

import shlex

import pytest

from marl.commands.train_argv import TrainArgv, parse_train
from marl.errors import UserError


def test_flags_of_the_training_and_of_its_start_are_told_apart() -> None:
    words = "--distributed --algo ppo --num-gpus=2 --seeds 1-3,7 --lr 1e-3 --side-by-side 2 --dry-run"
    argv = parse_train(words.split())
    assert argv == TrainArgv(
        ("--algo", "ppo", "--lr", "1e-3"), {"distributed": "", "num_gpus": "2"}, (1, 2, 3, 7), 2, dry_run=True
    )
    assert argv.flags == ["--distributed", "--num-gpus", "2", "--algo", "ppo", "--lr", "1e-3"]


@pytest.mark.parametrize(
    ("words", "rounds", "training"),
    [
        ("--algo ppo", 0, "--algo ppo"),
        ("--league --algo ppo", 4, "--algo ppo"),
        ("--lr 1 --league=2", 2, "--lr 1"),
        ("--league 3 --lr -1", 3, "--lr -1"),
    ],
)
def test_a_league_has_a_default_number_of_rounds(words, rounds, training) -> None:
    argv = parse_train(words.split())
    assert (argv.rounds, argv.training) == (rounds, tuple(training.split()))


@pytest.mark.parametrize(
    "words",
    [
        "--algo ppo --max-restarts 2 --distributed",
        "--seeds 1-3 --side-by-side 2 --run-name x",
        "--seeds 1,5 --nnodes 1",
        "--league 3 --run-name 'a b'",
    ],
)
def test_the_command_starts_the_same_again(words) -> None:
    argv = parse_train(shlex.split(words))
    assert parse_train(shlex.split(argv.command().partition(" train ")[2])) == argv


@pytest.mark.parametrize(
    ("words", "topic"),
    [("--help", ""), ("-h", ""), ("--algo ppo --help ppo", "ppo"), ("--help=all", "all"), ("--help-all", "all"),
     ("--seeds --help", ""), ("--help --algo ppo", ""), ("--algo ppo", None)],
)  # fmt: skip
def test_help_comes_first(words, topic) -> None:
    assert parse_train(words.split()).help == topic


@pytest.mark.parametrize("words", ["--dry_run=no", "--distributed=false"])
def test_a_flag_without_a_value_refuses_one(words) -> None:
    with pytest.raises(UserError, match="takes no value"):
        parse_train([words])

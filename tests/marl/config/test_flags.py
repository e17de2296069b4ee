"""Flags: both spellings, types of values, and mistakes in one line."""

from dataclasses import replace

import pytest
from helpers.config_example import Config, Ddpg, at, mistake, reader


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        ("--seed 5", "seed", 5),
        ("--seed=5", "seed", 5),
        ("--seed -1", "seed", -1),
        ("--seed 50_000", "seed", 50_000),
        ("--seed 1e6", "seed", 1_000_000),
        ("--seed 3.0", "seed", 3),
        ("--seed 123456789012345678901", "seed", 123456789012345678901),
        ("--ddpg.tau 3e-4", "ddpg.tau", 3e-4),
        ("--ddpg.tau 1", "ddpg.tau", 1.0),
        ("--ddpg.tau=-.5", "ddpg.tau", -0.5),
        ("--tau 1e6", "ddpg.tau", 1e6),  # algo is ddpg
        ("--algo ppo --tau 0.25", "ppo.tau", 0.25),
        ("--tau 0.25 --algo ppo", "ppo.tau", 0.25),
        ("--lr 0.1", "ddpg.optimizer.lr", 0.1),
        ("--ddpg.optimizer.lr 0.1", "ddpg.optimizer.lr", 0.1),
        ("--max_episodes 7", "schedule.max_episodes", 7),
        ("--max-episodes 7", "schedule.max_episodes", 7),
        ("--schedule.max-episodes 7", "schedule.max_episodes", 7),
        ("--opponent_difficulty_strategy league", "schedule.strategy", "league"),
        ("--opponent-difficulty-strategy=league", "schedule.strategy", "league"),
        ("--strategy linear", "schedule.strategy", "linear"),
        ("--verbose", "verbose", True),
        ("--verbose --seed 1", "verbose", True),
        ("--verbose Yes", "verbose", True),
        ("--verbose=1", "verbose", True),
        ("--verbose on", "verbose", True),
        ("--verbose false", "verbose", False),
        ("--ppo.amp off", "ppo.amp", False),
        ("--ppo.amp 0", "ppo.amp", False),
        ("--no-amp", "ppo.amp", False),
        ("--no_amp", "ppo.amp", False),
        ("--no-ppo.amp --seed 1", "ppo.amp", False),
        ("--ppo.no-amp", "ppo.amp", False),
        ("--no-compile", "compile", False),
        ("--compile", "compile", True),
        ("--compile auto", "compile", None),
        ("--check_sync", "check_sync", 100),
        ("--check-sync --verbose", "check_sync", 100),
        ("--check_sync 5", "check_sync", 5),
        ("--check_sync=5", "check_sync", 5),
        ("--body 64,32", "ddpg.body", (64, 32)),
        ("--body 64", "ddpg.body", (64,)),
        ("--body=", "ddpg.body", ()),
        ("--tags a,b", "tags", ("a", "b")),
        ("--seeds 1,2", "seeds", (1, 2)),
        ("--seeds none", "seeds", None),
        ("--batch_size 64", "batch_size", 64),
        ("--batch_size auto", "batch_size", None),
        ("--device cuda", "device", "cuda"),
        ("--device none", "device", None),
        ("--device null", "device", None),
        ("--noise off", "ddpg.noise", "off"),
        ("--name auto", "name", "auto"),  # only a field that can be None reads it so
        ("--name true", "name", "true"),
        ("--name=", "name", ""),
        ("--name=a=b", "name", "a=b"),
        ("--name=--x", "name", "--x"),
        ("--name a_b", "name", "a_b"),  # of a value, nothing is respelled
        ("--note None", "note", None),
        ("--seed 1 --seed 2", "seed", 2),
        ("--tau 1 --ddpg.tau 2", "ddpg.tau", 2.0),
        ("--verbose --no-verbose", "verbose", False),
    ],
)
def test_flags(words, path, value):
    found = at(reader(*words.split(" ")), path)
    assert found == value
    assert type(found) is type(value)


def test_a_flag_changes_nothing_else():
    assert reader("--tau", "0.5") == replace(Config(), ddpg=Ddpg(tau=0.5))
    assert reader() == Config()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--learning_rate 1", ["unknown flag --learning_rate, did you mean --lr?"]),
        ("--sede 1", ["unknown flag --sede, did you mean --seed?"]),
        ("--xyzzy", ["unknown flag --xyzzy;", "known: algo, seed", "ddpg.*, ppo.*, schedule.*"]),
        ("--ddpg.tua 1", ["--ddpg.tua", "did you mean --ddpg.tau?"]),
        ("--ddpg.optimizer.lt 1", ["did you mean --ddpg.optimizer.lr?"]),
        ("--dppg.tau 1", ["did you mean --ddpg.tau?"]),
        ("--optimizer.lr 1", ["--optimizer.lr", "did you mean --ddpg.optimizer.lr?"]),
        ("--opponent-dificulty-strategy x", ["did you mean --opponent_difficulty_strategy?"]),
        ("--se 1", ["unknown flag --se"]),  # no abbreviations
        ("--steps 1", ["unknown flag --steps"]),
        ("--ddpg 1", ["--ddpg is a section", "tau"]),
        ("--algo random --tau 1", ["--tau", "--ddpg.tau or --ppo.tau"]),
        ("--seed", ["--seed needs a value", "a whole number"]),
        ("--seed --verbose", ["--seed needs a value"]),
        ("--seed=", ["--seed is ''", "a whole number"]),
        ("--seed 1.5", ["--seed is '1.5'", "a whole number"]),
        ("--seed 1e99", ["--seed is '1e99'"]),  # not exactly the number it looks like
        ("--seed true", ["--seed is 'true'"]),
        ("--seed nan", ["--seed is 'nan'"]),
        ("--seed auto", ["--seed is 'auto'"]),
        ("--batch-size big", ["--batch-size is 'big'", "a whole number, or auto"]),
        ("--tau nan", ["--tau is 'nan'", "a finite number"]),
        ("--tau=-inf", ["--tau is '-inf'"]),
        ("--tau 1e999", ["--tau is '1e999'"]),
        ("--tau fast", ["--tau is 'fast'"]),
        ("--algo sac", ["--algo is 'sac'", "one of ddpg, ppo, random"]),
        ("--algo DDPG", ["--algo is 'DDPG'"]),
        ("--device tpu", ["--device is 'tpu'", "one of cpu, cuda, or auto"]),
        ("--verbose maybe", ["--verbose is 'maybe'", "true or false"]),
        ("--no-verbose false", ["--no-verbose takes no value", "'false'"]),
        ("--no-verbose=1", ["--no-verbose takes no value"]),
        ("--no-seed", ["unknown flag --no-seed"]),
        ("--body 64,x", ["--body is '64,x'", "every item a whole number"]),
        ("--body 64,", ["--body is '64,'"]),
        ("--body 64 32", ["'32' belongs to no flag"]),
        ("--tags a,,b", ["--tags is 'a,,b'"]),
        ("extra", ["'extra' belongs to no flag"]),
        ("-s 1", ["'-s' belongs to no flag"]),
        ("-- --seed 1", ["'--' belongs to no flag"]),
        ("--=1", ["'--=1' belongs to no flag"]),
        ("--a\nb 1", ["unknown flag"]),
        ("--seed a\nb", ["--seed is"]),
    ],
)
def test_mistakes_in_flags(words, parts):
    message = mistake(*words.split(" "))
    assert all(part in message for part in parts), message

"""YAML files: types of values, and mistakes in one line that names the file."""

import pytest
from helpers.config_example import at, mistake, reader

from marl.config.yaml_file import read_yaml
from marl.errors import UserError


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("seed: 5", "seed", 5),
        ("seed: 1e6", "seed", 1_000_000),  # PyYAML reads text
        ("seed: 1.0e+6", "seed", 1_000_000),  # and here a float
        ("seed: 50_000", "seed", 50_000),
        ("ddpg: {tau: 3e-4}", "ddpg.tau", 3e-4),
        ("ddpg:\n  tau: 1", "ddpg.tau", 1.0),
        ("ddpg.tau: 0.5", "ddpg.tau", 0.5),
        ("tau: 0.5", "ddpg.tau", 0.5),
        ("tau: 0.5\nalgo: ppo", "ppo.tau", 0.5),
        ("lr: 0.5", "ddpg.optimizer.lr", 0.5),
        ("ddpg: {optimizer: {lr: 0.5}}", "ddpg.optimizer.lr", 0.5),
        ("ddpg: {optimizer.lr: 0.5}", "ddpg.optimizer.lr", 0.5),
        ("ddpg.optimizer: {lr: 0.5}", "ddpg.optimizer.lr", 0.5),
        ("max-episodes: 7", "schedule.max_episodes", 7),
        ("opponent_difficulty_strategy: league", "schedule.strategy", "league"),
        ("verbose: on", "verbose", True),
        ("verbose: 'no'", "verbose", False),
        ("verbose: 1", "verbose", True),
        ("compile: auto", "compile", None),
        ("body: [64, 1e2]", "ddpg.body", (64, 100)),
        ("body: 64,32", "ddpg.body", (64, 32)),
        ("body: 64", "ddpg.body", (64,)),
        ("body: []", "ddpg.body", ()),
        ("tags: [a, 'b,c']", "tags", ("a", "b,c")),
        ("tags: a, b", "tags", ("a", "b")),
        ("batch_size: null", "batch_size", None),
        ("batch_size: auto", "batch_size", None),
        ("batch_size:", "batch_size", None),
        ("seeds: None", "seeds", None),
        ("noise: 'off'", "ddpg.noise", "off"),
        ("name: '5'", "name", "5"),
        ("ppo: &ppo\n  tau: 1\nddpg: {<<: *ppo, tau: 2}", "ddpg.tau", 2.0),
        ("ddpg:\nseed: 3", "seed", 3),  # all of its lines are comments
        ("# nothing\n", "seed", 0),
        ("\ufeffseed: 4", "seed", 4),
        ("name: Zoë", "name", "Zoë"),
    ],
)
def test_files(file, text, path, value):
    found = at(reader(layers=[read_yaml(file(text))]), path)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sede: 1", ["unknown key sede", "did you mean seed?", "known: algo, seed"]),
        ("ddpg: {tua: 1}", ["unknown key ddpg.tua", "did you mean ddpg.tau?", "known in ddpg: tau, body"]),
        ("ddpg: {epochs: 1}", ["unknown key ddpg.epochs"]),  # a plain name is none inside a section
        ("dppg: {tau: 1}", ["unknown key dppg", "did you mean ddpg?"]),
        ("'': {seed: 1}", ["unknown key"]),
        ("steps: 1", ["unknown key steps"]),
        ("1: 2", ["the key 1 is a int"]),
        ("on: 2", ["the key True is a bool"]),
        ("ddpg: {off: 2}", ["the key ddpg.False is a bool"]),
        ("ddpg: 5", ["section ddpg holds 5"]),
        ("ddpg: [tau]", ["section ddpg holds ['tau']"]),
        ("algo: random\ntau: 1", ["tau", "ddpg.tau or ppo.tau"]),
        ("tau: 1\nddpg: {tau: 2}", ["tau and ddpg.tau both set ddpg.tau"]),
        ("batch-size: 1\nbatch_size: 2", ["batch-size and batch_size both set batch_size"]),
        ("strategy: league\nopponent_difficulty_strategy: linear", ["both set schedule.strategy"]),
        ("seed: x", ["seed is 'x'", "a whole number"]),
        ("seed: 1.5", ["seed is 1.5", "a whole number"]),
        ("seed: true", ["seed is True"]),
        ("seed: .inf", ["seed is inf"]),
        ("seed:", ["seed is None"]),
        ("seed: [1]", ["seed is [1]"]),
        ("seed: {a: 1}", ["seed is {'a': 1}"]),
        ("seed: 2024-01-01", ["seed is datetime.date"]),
        ("check_sync: true", ["check_sync is True"]),
        ("tau: fast", ["tau is 'fast'", "a finite number"]),
        ("tau: yes", ["tau is True"]),
        ("tau: .nan", ["tau is nan"]),
        ("tau: 1" + "0" * 400, ["tau is 1", "..."]),
        ("verbose: 2", ["verbose is 2", "true or false"]),
        ("verbose: 1.0", ["verbose is 1.0"]),
        ("verbose: maybe", ["verbose is 'maybe'"]),
        ("verbose:", ["verbose is None"]),
        ("noise: off", ["noise is False", "one of on, off", "bool unless you quote it"]),
        ("noise: loud", ["noise is 'loud'", "one of on, off"]),
        ("device: off", ["device is False", "quote"]),
        ("name: on", ["name is True", "bool unless you quote it"]),
        ("name: 5", ["name is 5", "int unless you quote it"]),
        ("name: 2024-01-01", ["name is", "date unless you quote it"]),
        ("name: [a]", ["name is ['a']", "text"]),
        ("tags: [a, no]", ["tags is ['a', False]", "quote"]),
        ("tags: [a, [b]]", ["tags is"]),
        ("body: [1, 2.5]", ["body is [1, 2.5]"]),
        ("body: [1, true]", ["body is [1, True]"]),
        ("body: {a: 1}", ["body is"]),
    ],
)
def test_mistakes_in_values_of_files(file, text, parts):
    path = file(text)
    message = mistake(layers=[read_yaml(path)])
    assert message.startswith(f"{path}: ")
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("seed: 1\nname: a: b", 2),
        ("seed: 1\nddpg:\n\ttau: 1", 3),
        ("seed: [1", 1),
        ("seed: 1\n---\nseed: 2", 2),
        ("seed: 1\nname: a\nseed: 2", 3),
        ("ddpg:\n  tau: 1\n  body: [1]\n  tau: 2", 4),
        ("ddpg:\n  tau: 1\nddpg:\n  body: [1]", 3),
        ("tags:\n  - a: 1\n    a: 2", 3),
        ("\n\nname: *nowhere", 3),
        ("name: !!python/name:os.system x", 1),
        ("? [a]\n: 1", 1),
        ("seed: 1\nname: \x07", 2),
        ("ddpg: &x\n  ddpg: *x\n  ddpg: 1", 3),
    ],
)
def test_bad_yaml_is_told_with_its_line(file, text, line):
    path = file(text)
    with pytest.raises(UserError) as caught:
        read_yaml(path)
    message = str(caught.value)
    lines = {line, line + 1} if text == "seed: [1" else {line}  # the end of the file may be counted as a line
    assert any(message.startswith(f"{path}, line {number}: bad YAML: ") for number in lines), message
    assert "\n" not in message


@pytest.mark.parametrize(
    "text", [b"name: \xff", "name: !!timestamp x", "name: 2024-13-01", "x: !!bool maybe", "x: !!float ''", "[" * 5000]
)
def test_bad_yaml_without_a_line(file, text):
    path = file(text)
    with pytest.raises(UserError) as caught:
        read_yaml(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def bomb(levels: int) -> str:
    """A few lines that stand for 10 ** levels values."""
    lines = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels + 1)]
    return "\n".join(["a0: &a0 x", *lines, "seed: 5"])


def test_an_alias_may_stand_for_a_few_values(file):
    assert read_yaml(file("a: &a [1, 2]\nb: *a")).values == {"a": [1, 2], "b": [1, 2]}
    assert read_yaml(file(bomb(2))).values["seed"] == 5


@pytest.mark.parametrize(
    "text", [bomb(9), "body: &x [*x]", "tags: &x [*x]", "&a {*a : 1}", "x: " + "y" * 300_000, "- 1\n" * 20_000]
)
def test_what_is_too_large_for_a_configuration_is_refused_at_once(file, text):
    with pytest.raises(UserError, match=r"run\.yaml: bad YAML: (more than|an anchor|unhashable)"):
        read_yaml(file(text))


@pytest.mark.parametrize("text", ["- seed", "seed", "5", "null"])
def test_a_file_that_is_no_mapping(file, text):
    with pytest.raises(UserError, match=r"run\.yaml: the file holds"):
        read_yaml(file(text))


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match=r"gone\.yaml: cannot be read: No such file"):
        read_yaml(tmp_path / "gone.yaml")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_yaml(str(tmp_path))

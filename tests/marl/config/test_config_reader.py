"""Settings from defaults, YAML files and flags: names, types, precedence, and mistakes told in one line."""

import json
import subprocess
import sys
from dataclasses import MISSING, dataclass, field, make_dataclass, replace
from datetime import date
from typing import Literal, Optional

import pytest
import yaml
from helpers.command import ROOT
from hypothesis import given
from hypothesis import strategies as st

from arena.errors import ArenaError
from marl.config.reader import Layer, fields_of, from_dict, help_text, read, read_yaml, to_dict
from marl.errors import UserError
from opponents.scheduler import ScheduleConfig


@dataclass(frozen=True)
class Optimizer:
    lr: float = 1e-3
    """Step size."""
    clip: float | None = None
    """Longest gradient."""


@dataclass(frozen=True)
class Ddpg:
    tau: float = 0.01
    """Soft update of the target networks:
    share of the new weights."""
    body: tuple[int, ...] = (128, 128)
    noise: Literal["on", "off"] = "on"
    optimizer: Optimizer = Optimizer()


@dataclass(frozen=True)
class Ppo:
    tau: float = 0.5
    amp: bool = True
    epochs: int = 4


@dataclass(frozen=True)
class Config:
    algo: Literal["ddpg", "ppo", "random"] = "ddpg"
    """The learner."""
    seed: int = 0
    name: str = "run"
    batch_size: int | None = None
    device: Optional[Literal["cpu", "cuda"]] = None  # noqa: UP045 - the old spelling must work as well
    verbose: bool = False
    compile: bool | None = None
    check_sync: int = field(default=0, metadata={"bare": 100})
    """Compare the ranks every so many updates."""
    tags: tuple[str, ...] = ()
    seeds: tuple[int, ...] | None = None
    note: str | None = None
    steps: int = field(default=0, init=False)  # worked out, not a setting
    ddpg: Ddpg = field(default_factory=Ddpg)
    ppo: Ppo = Ppo(epochs=7)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)


ALIASES = {"opponent_difficulty_strategy": "schedule.strategy"}


def at(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config


def reader(*words, layers=()):
    return read(Config, words, ALIASES, "algo", layers)


def mistake(*words, layers=(), prefer="algo") -> str:
    with pytest.raises(UserError) as caught:
        read(Config, words, ALIASES, prefer, layers)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def file(tmp_path):
    """Writes a YAML file and returns its path."""

    def write(text: str, name: str = "run.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


# --- what the fields are


def test_every_leaf_is_listed_in_order():
    options = {option.path: option for option in fields_of(Config)}
    assert list(options)[:3] == ["algo", "seed", "name"]
    assert "steps" not in options
    assert "ddpg" not in options
    assert options["ddpg.optimizer.lr"].default == 1e-3
    assert options["ddpg.optimizer.lr"].section == "ddpg.optimizer"
    assert options["ddpg.tau"].type is float
    assert options["ddpg.tau"].help == "Soft update of the target networks: share of the new weights."
    assert options["ddpg.body"].help == ""
    assert options["schedule.window"].help.startswith("Matches needed")
    assert options["check_sync"].bare == 100
    assert options["verbose"].bare is True
    assert options["seed"].bare is None


def test_the_default_of_a_section_counts_not_that_of_its_class():
    assert {option.path: option.default for option in fields_of(Config)}["ppo.epochs"] == 7
    assert reader().ppo.epochs == 7
    assert reader("--ppo.amp", "no").ppo == Ppo(amp=False, epochs=7)


def test_help_of_inherited_fields_and_of_a_class_without_source():
    @dataclass(frozen=True)
    class Child(Optimizer):
        momentum: float = 0.9
        """How long it rolls."""

    assert [option.help for option in fields_of(Child)] == ["Step size.", "Longest gradient.", "How long it rolls."]
    assert [option.help for option in fields_of(make_dataclass("Made", [("a", int, 1)]))] == [""]


@pytest.mark.parametrize(
    "hint", [dict, list[int], int | str, tuple[int, int], Literal[1, 2], Literal["auto", "cpu"] | None, Ppo | None]
)
def test_a_type_that_cannot_be_written_is_the_programmers_mistake(hint):
    with pytest.raises(TypeError):
        fields_of(make_dataclass("Bad", [("x", hint, None)]))


# --- flags


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
        ("--sede 1", ["unknown flag --sede", "did you mean --seed?", "known: algo, seed", "ddpg.*"]),
        ("--xyzzy", ["unknown flag --xyzzy;", "known: algo"]),
        ("--ddpg.tua 1", ["--ddpg.tua", "did you mean --ddpg.tau?", "known in ddpg: tau, body, noise"]),
        ("--ddpg.optimizer.lt 1", ["--ddpg.optimizer.lr?", "known in ddpg.optimizer: lr, clip"]),
        ("--dppg.tau 1", ["did you mean --ddpg.tau?", "ddpg.*, ppo.*, schedule.*"]),
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


def test_an_ambiguous_name_without_a_preferred_section():
    assert "--ddpg.tau or --ppo.tau" in mistake("--tau", "1", prefer=None)


def test_a_top_level_name_goes_before_the_same_name_in_a_section():
    top = make_dataclass("Top", [("tau", float, 1.0), ("ppo", Ppo, Ppo())], frozen=True)
    assert read(top, ["--tau", "2"]) == top(tau=2.0)


def test_an_alias_may_settle_an_ambiguous_name():
    assert read(Config, ["--tau", "2"], {"tau": "ppo.tau"}).ppo.tau == 2


def test_the_name_of_a_section_is_never_that_of_a_leaf():
    inner = make_dataclass("Inner", [("ppo", int, 1)], frozen=True)
    outer = make_dataclass("Outer", [("ppo", Ppo, Ppo()), ("inner", inner, inner())], frozen=True)
    with pytest.raises(UserError, match="--ppo is a section"):
        read(outer, ["--ppo", "2"])
    assert read(outer, ["--inner.ppo", "2"]).inner.ppo == 2


def test_the_preferring_leaf_may_be_in_a_section():
    run = make_dataclass("Run", [("algo", str, "ddpg")], frozen=True)
    cls = make_dataclass("Cls", [("run", run, run()), ("ddpg", Ddpg, Ddpg()), ("ppo", Ppo, Ppo())], frozen=True)
    assert read(cls, ["--tau", "2", "--algo", "ppo"], prefer="run.algo").ppo.tau == 2
    assert read(cls, ["--tau", "2"], prefer="run.algo").ddpg.tau == 2


def test_a_field_without_default_must_be_given():
    cls = make_dataclass("Needs", [("x", int)], frozen=True)
    assert fields_of(cls)[0].default is MISSING
    assert read(cls, ["--x", "1"]) == cls(1)
    assert "(required)" in help_text(cls)
    with pytest.raises(UserError, match="--x is missing; allowed: a whole number"):
        read(cls, [])


def test_mistakes_found_by_the_dataclass_pass_through():
    with pytest.raises(ArenaError, match=r"^window is 0; allowed: at least 1$"):
        reader("--window", "0")
    with pytest.raises(ArenaError, match="unknown opponent strategy"):
        reader("--strategy", "brave")


# --- files


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
        ("body: &x [*x]", ["body is"]),
        ("tags: &x [*x]", ["tags is"]),
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


@pytest.mark.parametrize("text", ["- seed", "seed", "5", "null"])
def test_a_file_that_is_no_mapping(file, text):
    with pytest.raises(UserError, match=r"run\.yaml: the file holds"):
        read_yaml(file(text))


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match=r"gone\.yaml: cannot be read: No such file"):
        read_yaml(tmp_path / "gone.yaml")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_yaml(str(tmp_path))


# --- precedence


def test_later_layers_and_then_flags_win(file):
    layers = [
        read_yaml(file("seed: 1\nname: one\nddpg: {tau: 0.1, body: [1]}", "one.yaml")),
        Layer("resumed run", {"seed": 2, "ddpg": {"tau": 0.2}}),
    ]
    config = reader("--seed", "3", layers=layers)
    assert (config.seed, config.name, config.ddpg.tau, config.ddpg.body) == (3, "one", 0.2, (1,))
    assert config.ppo == Config().ppo


@pytest.mark.parametrize(
    ("words", "layers", "section"),
    [
        ([], [{"tau": 9}], "ddpg"),
        ([], [{"tau": 9}, {"algo": "ppo"}], "ppo"),
        (["--algo", "ddpg"], [{"tau": 9, "algo": "ppo"}], "ddpg"),
        (["--algo=ppo"], [{"tau": 9, "algo": "ddpg"}], "ppo"),
        (["--algo", "ddpg", "--algo", "ppo", "--tau", "9"], [], "ppo"),
    ],
)
def test_a_plain_name_goes_to_the_finally_chosen_section(words, layers, section):
    config = reader(*words, layers=[Layer("test", values) for values in layers])
    assert [name for name in ("ddpg", "ppo") if at(config, name).tau == 9] == [section]


def test_a_wrong_value_that_a_flag_overrides_is_still_told():
    assert "old: seed is 'x'" in mistake("--seed", "1", layers=[Layer("old", {"seed": "x"})])
    assert "old: algo is 'sac'" in mistake("--algo", "ppo", layers=[Layer("old", {"algo": "sac"})])


# --- there and back


def test_to_dict_is_plain():
    values = to_dict(replace(Config(), tags=("a",)))
    assert values["tags"] == ["a"]
    assert values["ddpg"]["body"] == [128, 128]
    assert values["ddpg"]["optimizer"] == {"lr": 1e-3, "clip": None}
    assert "steps" not in values
    assert json.loads(json.dumps(values)) == values


def test_from_dict_checks_like_a_file():
    assert from_dict(Config, {}) == Config()
    with pytest.raises(UserError, match=r"^best\.pt: ddpg\.tau is 'x'; allowed: a finite number$"):
        from_dict(Config, {"ddpg": {"tau": "x"}}, "best.pt")
    with pytest.raises(UserError, match="configuration: unknown key sed, did you mean seed"):
        from_dict(Config, {"sed": 1})
    with pytest.raises(UserError, match=r"best\.pt holds \[1\]"):
        from_dict(Config, [1], "best.pt")
    with pytest.raises(UserError, match="date unless you quote it"):
        from_dict(Config, {"name": date(2024, 1, 1)})


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))  # half a surrogate pair is no text in any file
INTS = st.lists(st.integers()).map(tuple)
CONFIGS = st.builds(
    Config,
    algo=st.sampled_from(["ddpg", "ppo", "random"]),
    seed=st.integers(),
    name=TEXT,
    batch_size=st.none() | st.integers(),
    device=st.sampled_from([None, "cpu", "cuda"]),
    verbose=st.booleans(),
    compile=st.none() | st.booleans(),
    check_sync=st.integers(),
    tags=st.lists(TEXT).map(tuple),
    seeds=st.none() | INTS,
    note=st.none() | TEXT.filter(lambda text: text.lower() not in ("auto", "none", "null")),  # these mean None
    ddpg=st.builds(
        Ddpg,
        tau=FLOATS,
        body=INTS,
        noise=st.sampled_from(["on", "off"]),
        optimizer=st.builds(Optimizer, FLOATS, st.none() | FLOATS),
    ),
    ppo=st.builds(Ppo, FLOATS, st.booleans(), st.integers()),
)


@given(CONFIGS)
def test_round_trip(config):
    values = to_dict(config)
    assert from_dict(Config, yaml.safe_load(yaml.safe_dump(values))) == config
    assert from_dict(Config, json.loads(json.dumps(values))) == config


@given(CONFIGS)
def test_round_trip_by_flags(config):
    words = []
    for option in fields_of(Config):
        value = at(config, option.path)
        if option.path == "tags":  # a text with a comma cannot be an item of a flag
            config = replace(config, tags=())
            value = ()
        text = "auto" if value is None else ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words.append(f"--{option.path}={text}")
    assert read(Config, words) == config


# --- help


def test_help_text():
    lines = help_text(Config, ALIASES, "algo").splitlines()
    assert lines[0] == "  --algo {ddpg,ppo,random}    The learner. (default: ddpg)"
    text = "\n".join(lines)
    for part in (
        "--check_sync [INT]          Compare the ranks every so many updates. (alone: 100, default: 0)",
        "--verbose [BOOL]            (default: false)",
        "--batch_size INT|auto       (default: auto)",
        "--device {cpu,cuda}|auto    (default: auto)",
        "--tags TEXT,...             (default: '')",
        "\nddpg:\n  --ddpg.tau FLOAT            Soft update",
        "--ddpg.body, --body INT,...",
        "(default: 128,128)",
        "\nddpg.optimizer:\n  --ddpg.optimizer.lr, --lr FLOAT",
        "--schedule.strategy, --strategy, --opponent_difficulty_strategy TEXT",
        "section named by --algo",
    ):
        assert part in text
    assert max(map(len, lines)) <= 110


def test_help_names_every_option_once():
    text = help_text(Config)
    for option in fields_of(Config):
        assert sum(line.split()[:1] in ([f"--{option.path}"], [f"--{option.path},"]) for line in text.splitlines()) == 1


def test_import_loads_neither_torch_nor_yaml():
    code = "import sys, marl.config.reader; print({'torch', 'yaml', 'numpy', 'arena'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr

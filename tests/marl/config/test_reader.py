"""Defaults, files and flags together: which one counts, and a configuration as plain values and back."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date

import pytest
import yaml
from helpers.command import ROOT
from helpers.config_example import Config, Ddpg, Optimizer, Ppo, at, mistake, options_of, reader
from hypothesis import given, settings
from hypothesis import strategies as st

from marl.config.reader import read, to_dict
from marl.config.yaml_file import Layer, read_yaml

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


# --- plain values and back


def test_to_dict_is_plain():
    values = to_dict(replace(Config(), tags=("a",)))
    assert values["tags"] == ["a"]
    assert values["ddpg"]["body"] == [128, 128]
    assert values["ddpg"]["optimizer"] == {"lr": 1e-3, "clip": None}
    assert "steps" not in values
    assert json.loads(json.dumps(values)) == values


def test_a_layer_from_python_is_checked_like_a_file():
    assert reader(layers=[Layer("best.pt", {})]) == Config()
    wrong = [Layer("best.pt", {"name": date(2024, 1, 1)})]
    assert mistake(layers=wrong).startswith("best.pt: name is datetime.date(2024, 1, 1); allowed: text; YAML reads it")


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
# Half a surrogate pair is no text in any file. Deferred: tables of all characters take a second, in every worker.
TEXT = st.deferred(lambda: st.text(st.characters(exclude_categories=["Cs"])))
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


@settings(deadline=None)  # of time: other tests run beside it
@given(CONFIGS)
def test_round_trip(config):
    values = to_dict(config)
    assert reader(layers=[Layer("yaml", yaml.safe_load(yaml.safe_dump(values)))]) == config
    assert reader(layers=[Layer("json", json.loads(json.dumps(values)))]) == config


@settings(deadline=None)  # of time: other tests run beside it
@given(CONFIGS)
def test_round_trip_by_flags(config):
    words = []
    for option in options_of(Config):
        value = at(config, option.path)
        if option.path == "tags":  # a text with a comma cannot be an item of a flag
            config = replace(config, tags=())
            value = ()
        text = "auto" if value is None else ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words.append(f"--{option.path}={text}")
    assert read(Config, words) == config


def test_import_loads_neither_torch_nor_yaml():
    code = "import sys, marl.config.reader; print({'torch', 'yaml', 'numpy', 'arena'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout == "set()\n", done.stderr

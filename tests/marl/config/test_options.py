"""The options of a dataclass: their names and sections, which option a name means, and names of earlier versions."""

from dataclasses import MISSING, dataclass, make_dataclass
from typing import Annotated, Literal

import pytest
from helpers.config_example import Config, Ddpg, Optimizer, Ppo, mistake, options_of, reader

from arena.errors import ArenaError
from marl.config.help import help_of, help_text
from marl.config.options import OldNames, Schema
from marl.config.reader import read
from marl.config.values import Choices
from marl.config.yaml_file import Layer
from marl.errors import UserError


def test_every_leaf_is_listed_in_order():
    options = Schema(Config).options
    assert list(options)[:3] == ["algo", "seed", "name"]
    assert "steps" not in options
    assert "ddpg" not in options
    assert options["ddpg.optimizer.lr"].default == 1e-3
    assert options["ddpg.optimizer.lr"].section == "ddpg.optimizer"
    assert options["ddpg.tau"].type is float
    assert help_of(options["ddpg.tau"]) == "Soft update of the target networks: share of the new weights."
    assert help_of(options["ddpg.body"]) == ""
    assert help_of(options["schedule.window"]).startswith("Matches needed")
    assert options["check_sync"].bare == 100
    assert options["verbose"].bare is True
    assert options["seed"].bare is None


def test_the_default_of_a_section_counts_not_that_of_its_class():
    assert Schema(Config).options["ppo.epochs"].default == 7
    assert reader().ppo.epochs == 7
    assert reader("--ppo.amp", "no").ppo == Ppo(amp=False, epochs=7)


def test_help_of_inherited_fields_and_of_a_class_without_source():
    @dataclass(frozen=True)
    class Child(Optimizer):
        momentum: float = 0.9
        """How long it rolls."""

    assert [help_of(option) for option in options_of(Child)] == [
        "Step size.",
        "Longest gradient.",
        "How long it rolls.",
    ]
    assert [help_of(option) for option in options_of(make_dataclass("Made", [("a", int, 1)]))] == [""]


@pytest.mark.parametrize(
    "hint", [dict, list[int], int | str, tuple[int, int], Literal[1, 2], Literal["auto", "cpu"] | None, Ppo | None]
)
def test_a_type_that_cannot_be_written_is_the_programmers_mistake(hint):
    with pytest.raises(TypeError):
        options_of(make_dataclass("Bad", [("x", hint, None)]))


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
    assert options_of(cls)[0].default is MISSING
    assert read(cls, ["--x", "1"]) == cls(1)
    assert "(required)" in help_text(cls)
    with pytest.raises(UserError, match="--x is missing; allowed: a whole number"):
        read(cls, [])


def test_mistakes_found_by_the_dataclass_pass_through():
    with pytest.raises(ArenaError, match=r"^window is 0; allowed: at least 1$"):
        reader("--window", "0")


def test_names_in_a_tuple_are_choices_too():
    with pytest.raises(UserError, match=r"--strategy is 'brave'; allowed: one of linear, .*adaptive, league$"):
        reader("--strategy", "brave")


# --- choices from a table


class Table(dict):
    """A table that counts how often it is looked up."""

    lookups = 0

    def __call__(self) -> dict:
        self.lookups += 1
        return self


@pytest.mark.parametrize("table", [{"cat": 1, "dog": 2}, lambda: {"cat": 1, "dog": 2}], ids=["mapping", "function"])
def test_choices_are_the_keys_of_a_table(table):
    hint = Annotated[str, Choices(table)]
    cls = make_dataclass("Pet", [("kind", hint, "cat"), ("other", hint | None, None)], frozen=True)
    assert read(cls, ["--kind", "dog"]) == cls("dog")
    assert read(cls, ["--other", "dog"]) == cls(other="dog")
    assert read(cls, ["--other", "auto"]) == cls()
    with pytest.raises(UserError, match=r"^--kind is 'cow'; allowed: one of cat, dog$"):
        read(cls, ["--kind", "cow"])
    with pytest.raises(UserError, match=r"^--other is 'cow'; allowed: one of cat, dog, or auto$"):
        read(cls, ["--other", "cow"])
    assert "--kind {cat,dog} " in help_text(cls)
    assert "--other {cat,dog}|auto " in help_text(cls)


def test_a_new_entry_of_the_table_is_a_new_choice():
    table = {"cat": 1}
    cls = make_dataclass("Pet", [("kind", Annotated[str, Choices(table)], "cat")], frozen=True)
    table["dog"] = 2
    assert read(cls, ["--kind", "dog"]) == cls("dog")


def test_a_table_is_looked_up_only_for_a_value_of_its_option():
    table = Table(cat=1)
    cls = make_dataclass("Pet", [("kind", Annotated[str, Choices(table)], "cat"), ("age", int, 1)], frozen=True)
    read(cls, ["--age", "3"])
    assert table.lookups == 0
    read(cls, ["--kind", "cat"])
    assert table.lookups > 0


def test_a_choice_of_a_table_must_not_mean_none():
    cls = make_dataclass("Pet", [("kind", Annotated[str, Choices({"auto": 1})], "auto")], frozen=True)
    with pytest.raises(TypeError, match="means None"):
        read(cls, ["--kind", "auto"])


# --- names of earlier versions


@dataclass(frozen=True)
class Net:
    size: int = 8
    kind: Annotated[str, Choices({"dense": 1, "conv": 2})] = "dense"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UserError(f"net.size is {self.size}; allowed: from 1")


@dataclass(frozen=True)
class One:
    decay: float = 0.5


@dataclass(frozen=True)
class Two:
    decay: float = 0.5


@dataclass(frozen=True)
class Renamed:
    algo: Literal["one", "two", "two_big"] = "one"
    net: Net = Net()
    one: One = One()
    two: Two = Two()


OLD = OldNames(
    paths={"net.width": "net.size", "one.rate": "one.decay", "two.rate": "two.decay"},
    values={"net.kind": {"mlp": "dense", "torus": "gone"}},
    retired={"rounds": (200, "the game has no other"), "net.deep": (False, "the option is gone")},
)


def renamed(*words: str, **values) -> Renamed:
    return read(Renamed, words, {}, "algo", [Layer("old.yaml", values)], OLD)


@pytest.mark.parametrize(
    ("words", "values", "expected"),
    [
        (["--net.width", "3"], {}, Renamed(net=Net(3))),
        (["--width", "3"], {}, Renamed(net=Net(3))),
        ([], {"net": {"width": 3}}, Renamed(net=Net(3))),
        ([], {"width": 3}, Renamed(net=Net(3))),
        (["--size", "4"], {"net": {"width": 3}}, Renamed(net=Net(4))),
        (["--width", "4"], {"net": {"size": 3}}, Renamed(net=Net(4))),
        (["--rate", "1"], {}, Renamed(one=One(1.0))),
        (["--rate", "1", "--algo", "two_big"], {}, Renamed(algo="two_big", two=Two(1.0))),
        (["--two.rate", "1"], {}, Renamed(two=Two(1.0))),
        (["--kind", "mlp"], {}, Renamed()),
        (["--kind", "conv"], {"net": {"kind": "mlp"}}, Renamed(net=Net(kind="conv"))),
        (["--rounds", "200"], {}, Renamed()),
        (["--rounds=2e2"], {"rounds": 200}, Renamed()),
        (["--rounds", "200"], {"rounds": 100}, Renamed()),
        ([], {"rounds": None}, Renamed()),
        ([], {"net": {"deep": 0}}, Renamed()),
        ([], {"net": {"deep": False}}, Renamed()),
        ([], {"net": {"deep": None}}, Renamed()),
        (["--deep", "false"], {"net": {"deep": 8}}, Renamed()),
        (["--no_deep"], {"net": {"deep": 8}}, Renamed()),
    ],
)
def test_an_old_name_means_the_new_one(words, values, expected):
    assert renamed(*words, **values) == expected


@pytest.mark.parametrize(
    ("words", "values", "message"),
    [
        (["--width", "x"], {}, "--width is 'x'; allowed: a whole number"),
        (["--width"], {}, "--width needs a value; allowed: a whole number"),
        (["--width", "0"], {}, "--width (now net.size) is 0; allowed: from 1"),
        (["--size", "0"], {}, "net.size is 0; allowed: from 1"),
        (["--size", "0"], {"width": 3}, "net.size is 0; allowed: from 1"),
        ([], {"net": {"width": 0}}, "old.yaml: net.width (now net.size) is 0; allowed: from 1"),
        ([], {"net": {"width": 1, "size": 1}}, "old.yaml: net.width and net.size both set net.size; one of them must"),
        (["--kind", "mpl"], {}, "--kind is 'mpl'; allowed: one of dense, conv"),
        (["--kind", "torus"], {}, "--kind is 'torus'; allowed: one of dense, conv"),  # there is no choice `gone`
        (["--rounds", "100"], {}, "--rounds is 100; allowed: 200, the game has no other"),
        (["--rounds", "x"], {}, "--rounds is x; allowed: 200, the game has no other"),
        (["--rounds"], {}, "--rounds needs a value; allowed: a whole number"),
        ([], {"rounds": 100}, "old.yaml: rounds is 100; allowed: 200, the game has no other"),
        (["--deep"], {}, "--deep is true; allowed: false, the option is gone"),
        (["--net.deep", "3"], {}, "--net.deep is 3; allowed: false, the option is gone"),
        ([], {"net": {"deep": 1}}, "old.yaml: net.deep is 1; allowed: false, the option is gone"),
        (["--net.rate", "1"], {}, "unknown flag --net.rate"),
    ],
)
def test_a_message_names_what_was_written(words, values, message):
    with pytest.raises(UserError) as caught:
        renamed(*words, **values)
    assert str(caught.value).startswith(message)


def test_an_old_value_that_is_still_a_choice_stays():
    cls = make_dataclass("Now", [("kind", Annotated[str, Choices({"mlp": 1, "dense": 2})], "mlp")], frozen=True)
    assert read(cls, ["--kind", "mlp"], old=OldNames(values={"kind": {"mlp": "dense"}})) == cls("mlp")


def test_a_name_of_today_goes_before_an_old_one():
    old = OldNames(paths={"two.size": "two.decay"})
    assert read(Renamed, ["--size", "3"], old=old) == Renamed(net=Net(3))

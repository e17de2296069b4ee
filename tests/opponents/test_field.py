"""The field of opponents/field.yaml: two halves without a common team, and every command that makes a team is one."""

import shlex
from types import SimpleNamespace

import pytest
import yaml
from helpers.script import load_script
from helpers.training import here

from marl.commands.player_groups import expand_groups
from marl.config.train_config import read_config
from marl.storage.run_folder import GROUP
from marl.storage.saved_player import load_policy
from opponents.field import DEVELOPMENT, HELD_OUT, LIST, SNAPSHOTS, field, listing, trainings
from opponents.players import champion, find, is_scripted
from opponents.probes import PROBES

HALVES = (DEVELOPMENT, HELD_OUT)
MOST_BYTES = 4_000_000  # of all snapshots
TRAINED = {name: flags for half in HALVES for name, flags in trainings(half).items()}


def test_two_halves_of_different_teams() -> None:
    teams = [*field(DEVELOPMENT), *field(HELD_OUT)]
    assert len(teams) == len(set(teams)) >= 12
    assert min(len(field(half)) for half in HALVES) >= 6
    assert yaml.safe_load(LIST.read_text(encoding="utf-8")).keys() == set(HALVES)


@pytest.mark.parametrize("half", HALVES)
def test_each_half_has_scripted_and_trained_teams(half) -> None:
    scripted = [name for name in field(half) if is_scripted(name)]
    assert len(scripted) >= 3
    assert [*scripted, *trainings(half)] == field(half)
    assert len({read_config(shlex.split(flags)).algo for flags in trainings(half).values()}) >= 3


@pytest.mark.parametrize("name", TRAINED)
def test_flags_of_a_training_are_read(name) -> None:
    config = read_config(shlex.split(TRAINED[name]))
    assert 0 < config.max_minutes <= 1


def test_the_script_prints_the_commands(tmp_path, monkeypatch, capsys) -> None:
    """Of teams whose snapshots are not there; it writes nothing."""
    script = load_script("train_field")
    monkeypatch.setattr(script, "SNAPSHOTS", tmp_path / "none")
    monkeypatch.setattr("sys.argv", ["train_field.py", "--print", "--runs-dir", "runs/it"])
    assert script.main() == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2 * len(TRAINED)
    for name, train, export in zip(TRAINED, said[::2], said[1::2], strict=True):
        assert train.startswith("python -m marl train ")
        assert train.endswith(f"--runs_dir runs/it --run_name {name}")
        assert export.startswith(f"python -m marl export runs/it/{GROUP}/{name} --safetensors ")
    assert not any(tmp_path.iterdir())


def test_the_script_trains_and_exports(tmp_path, monkeypatch) -> None:
    script = load_script("train_field")
    monkeypatch.setattr(script, "SNAPSHOTS", tmp_path / "snapshots")
    monkeypatch.setattr(script, "trainings", lambda half: {half: "--config smoke --max_minutes 0.001"})
    monkeypatch.setattr(script, "subprocess", SimpleNamespace(run=lambda command, **_: here(*command[3:])))
    monkeypatch.setattr("sys.argv", ["train_field.py", "--half", HELD_OUT, "--runs-dir", str(tmp_path / "runs")])
    assert script.main() == 0
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == [f"{HELD_OUT}.safetensors"]


def test_the_trained_teams_come_along_and_are_players_by_name() -> None:
    shipped = sorted(SNAPSHOTS.glob("*.safetensors"))
    assert sum(path.stat().st_size for path in shipped) <= MOST_BYTES
    assert {path.stem for path in shipped} == TRAINED.keys()
    assert all(champion(path.stem) == path for path in shipped)


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_team_is_what_its_flags_say(name) -> None:
    network, player = read_config(shlex.split(TRAINED[name])).network, find(name, load_policy)
    assert (player.encoder.name, player.actor.spec.body) == (network.encoder, network.body)


def test_a_half_is_a_group_of_players() -> None:
    assert expand_groups(["level1", DEVELOPMENT]) == ["level1", *field(DEVELOPMENT)]
    assert expand_groups([HELD_OUT, "champion"]) == [*field(HELD_OUT), "champion"]


@pytest.mark.parametrize("word", ["probes", "odd"])
def test_the_probes_leave_out_the_half_that_is_looked_at_once(word) -> None:
    probes = expand_groups([word])
    assert set(probes) == PROBES.keys() - set(field(HELD_OUT))
    assert len(probes) == 17


def test_the_listing_names_every_trained_team_once_with_its_half() -> None:
    assert [name for name, _ in listing()] == list(TRAINED)
    for name, about in listing():
        half = DEVELOPMENT if name in trainings(DEVELOPMENT) else HELD_OUT
        assert about == f"Of {half}: train {TRAINED[name]}"

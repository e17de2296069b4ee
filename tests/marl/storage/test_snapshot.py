"""Snapshots: a policy in one file that comes back as it was; anything else is an error in one line."""

import json

import pytest
import torch
from safetensors.torch import save_file

from arena import BatchArena
from arena.encoders import encoder_named
from arena.rules import SNAKES
from marl.errors import UserError
from marl.networks.actors import make_actor
from marl.networks.policy import describe_actor
from marl.networks.spec import NetworkSpec
from marl.rewards import RewardWeights
from marl.storage import snapshot
from marl.storage.policy_player import PolicyPlayer
from marl.storage.saved_player import load_policy
from opponents import players
from opponents.match import play
from opponents.players import find

SEED = 5
SPECS = {
    "dense": ("features", NetworkSpec((16, 8))),
    "value": ("planes", NetworkSpec((8,), 5)),
    "torus": ("planes", NetworkSpec((8, 8), 5, channels=(4, 2))),
    "messages": ("features", NetworkSpec((8, 8), messages=True)),
    "lstm": ("features", NetworkSpec((8,), 5, messages=True, lstm_size=6)),
    "canonical": ("canonical", NetworkSpec((8, 8), kind="mlp")),
    "canonical_lstm": ("canonical", NetworkSpec((8,), 5, lstm_size=6, kind="mlp")),
    "torus_by_kind": ("planes", NetworkSpec((8,), channels=(4, 2), kind="cnn")),
}


@pytest.fixture(autouse=True)
def seeded():
    print(f"seed {SEED}")
    torch.manual_seed(SEED)


def a_policy(name: str = "dense") -> tuple[torch.nn.Module, dict]:
    """An actor that prefers some actions, and its description."""
    encoder, spec = SPECS[name]
    actor = make_actor(encoder_named(encoder), spec)
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return actor, describe_actor(encoder_named(encoder), spec)


def written(path, name: str = "dense", change: dict | None = None, dtype=torch.float32) -> torch.nn.Module:
    actor, about = a_policy(name)
    snapshot.write(path, {key: tensor.to(dtype) for key, tensor in actor.state_dict().items()}, about | (change or {}))
    return actor


def moves_of(player, turns: int = 4) -> list[list[int]]:
    """The player's actions as red in two matches, turn by turn."""
    arena = BatchArena(2, seed=SEED)
    arena.start()
    seats = torch.tensor([0, 1, 2, 6, 7, 8], dtype=torch.int32)
    player.begin(arena, seats)
    found = []
    for turn in range(turns):
        moves = torch.full((2, SNAKES), turn % 4, dtype=torch.int8)
        player.act(arena, seats, moves)
        arena.play_turn(moves)
        found.append(moves.flatten().tolist())
    return found


@pytest.mark.parametrize("name", SPECS)
def test_a_policy_comes_back_as_it_was(name, tmp_path) -> None:
    path = tmp_path / "team.safetensors"
    actor = written(path, name)
    player = snapshot.read(path, "team")
    assert player.name == "team"
    assert player.encoder is encoder_named(SPECS[name][0])
    again = player.actor.state_dict()
    assert again.keys() == actor.state_dict().keys()
    assert all(torch.equal(tensor, again[key]) for key, tensor in actor.state_dict().items())
    assert moves_of(player) == moves_of(PolicyPlayer(actor, player.encoder, "team"))
    assert not any(parameter.requires_grad for parameter in player.actor.parameters())
    assert sorted(path.parent.iterdir()) == [path], "and nothing else is left behind"


def test_a_reward_comes_back_and_may_be_missing(tmp_path) -> None:
    path, reward = tmp_path / "team.safetensors", RewardWeights(own=1.0, foes=0.25)
    actor, about = a_policy()
    snapshot.write(path, actor.state_dict(), about)
    assert snapshot.read(path).reward is None
    told = describe_actor(encoder_named(about["encoder"]), actor.spec, reward)
    snapshot.write(path, actor.state_dict(), told)
    assert snapshot.read(path).reward == reward
    assert snapshot.read(path).about == json.loads(json.dumps(told)) | {"body": told["body"], "channels": ()}


def test_a_snapshot_without_a_name_is_called_by_its_path(tmp_path) -> None:
    written(tmp_path / "team.safetensors")
    assert snapshot.read(tmp_path / "team.safetensors").name == str(tmp_path / "team.safetensors")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_weights_are_half_the_size_and_play_in_full_precision(dtype, tmp_path) -> None:
    wide, narrow = tmp_path / "wide.safetensors", tmp_path / "narrow.safetensors"
    actor = written(wide)
    torch.manual_seed(SEED)
    written(narrow, dtype=dtype)
    assert narrow.stat().st_size < 0.7 * wide.stat().st_size
    again = snapshot.read(narrow).actor.state_dict()
    for key, tensor in actor.state_dict().items():
        assert again[key].dtype == torch.float32
        assert torch.equal(again[key], tensor.to(dtype).float())


def test_a_snapshot_plays_whole_matches_by_its_path(tmp_path) -> None:
    path = tmp_path / "team.safetensors"
    written(path, "lstm")
    results = play(str(path), "level0", 4, seed=SEED, loader=load_policy)
    assert (results.home, results.wins + results.draws + results.losses) == (str(path), 4)


def test_a_champion_plays_by_its_name(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(players, "CHAMPIONS", tmp_path)
    written(tmp_path / "victor.safetensors", dtype=torch.float16)
    (tmp_path / "victor.json").write_text(json.dumps({"about": "Won everything."}))
    found = find("victor", load_policy)
    assert isinstance(found, PolicyPlayer)
    assert found.name == "victor"
    assert play("victor", "level0", 2, seed=SEED, loader=load_policy).home == "victor"
    assert players.listing()[-1] == ("victor", "Won everything.")


# --- old files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPECS)
def test_a_snapshot_with_the_former_names_plays_the_same(name, tmp_path) -> None:
    """Written before `turned` became canonical and `memory` lstm_size, and before `kind`."""
    actor, about = a_policy(name)
    new, old = tmp_path / "new.safetensors", tmp_path / "old.safetensors"
    snapshot.write(new, actor.state_dict(), about)
    former = {"memory" if key == "lstm_size" else key: value for key, value in about.items() if key != "kind"}
    former["encoder"] = {"canonical": "turned"}.get(former["encoder"], former["encoder"])
    assert former.keys() == {"encoder", "encoder_version", "body", "outputs", "channels", "messages", "memory"}
    snapshot.write(old, actor.state_dict(), former)
    players_of_both = snapshot.read(old), snapshot.read(new)
    for player in players_of_both:
        assert player.encoder is encoder_named(about["encoder"])
        assert type(player.actor) is type(actor)
        assert all(torch.equal(tensor, actor.state_dict()[key]) for key, tensor in player.actor.state_dict().items())
    assert moves_of(players_of_both[0], turns=20) == moves_of(players_of_both[1], turns=20)


# --- files that are no snapshots --------------------------------------------------------------------------------------


def the_mistake(path) -> str:
    with pytest.raises(UserError) as error:
        snapshot.read(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_file_that_was_cut_off(share, tmp_path) -> None:
    path = tmp_path / "team.safetensors"
    written(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    assert "is not a snapshot, or is damaged" in the_mistake(path)


@pytest.mark.parametrize("content", [b"PK\x03\x04 a zip file, or a pickle", b"{}", b"\xff" * 100])
def test_a_file_of_another_kind(content, tmp_path) -> None:
    path = tmp_path / "team.safetensors"
    path.write_bytes(content)
    assert "is not a snapshot, or is damaged" in the_mistake(path)


def test_no_file_and_a_folder(tmp_path) -> None:
    assert the_mistake(tmp_path / "nobody.safetensors").endswith("no such file")
    the_mistake(tmp_path)


@pytest.mark.parametrize("header", [None, {"format": "pt"}, {snapshot.HEADER: "[1]"}])
def test_weights_that_do_not_say_what_they_are(header, tmp_path) -> None:
    path = tmp_path / "team.safetensors"
    save_file(a_policy()[0].state_dict(), path, header)
    assert "does not say what network it holds" in the_mistake(path)


def test_a_header_that_is_no_json(tmp_path) -> None:
    path = tmp_path / "team.safetensors"
    for header in ("{", "[" * 100_000, '{"a":' * 50_000):
        save_file(a_policy()[0].state_dict(), path, {snapshot.HEADER: header})
        assert "is not a snapshot, or is damaged" in the_mistake(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"encoder": "smells"},
            "unknown encoder 'smells'; known: canonical, egocentric, features",
        ),
        ({"encoder": None}, "unknown encoder None"),
        ({"encoder_version": 0}, "was trained on version 0 of encoder features"),
        ({"body": [16, 9]}, "its weights are not those of the network that it names"),
        ({"body": "wide"}, "its weights are not those of the network that it names"),
        ({"body": []}, "its weights are not those of the network that it names"),
        ({"body": None}, "its weights are not those of the network that it names"),
        ({"outputs": 5}, "its weights are not those of the network that it names"),
        ({"messages": True}, "its weights are not those of the network that it names"),
        ({"lstm_size": 8}, "its weights are not those of the network that it names"),
        ({"memory": 8}, "its weights are not those of the network that it names"),
        ({"kind": "cnn"}, "its weights are not those of the network that it names"),
        ({"kind": "smells"}, "unknown network kind 'smells'; one of your own comes by --import FILE"),
        ({"encoder": "planes", "encoder_version": encoder_named("planes").version}, "its weights are not those"),
        ({"reward": {"taste": 1}}, "its reward is {'taste': 1}; expected weights by name"),
        ({"reward": [1, 0.3, 0.3]}, "its reward is [1, 0.3, 0.3]; expected weights by name"),
        ({"reward": {"own": "much"}}, "its reward is {'own': 'much'}; expected weights by name"),
    ],
)
def test_a_network_that_is_not_the_one_that_is_named(change, message, tmp_path) -> None:
    path = tmp_path / "team.safetensors"
    written(path, change=change)
    assert message in the_mistake(path)

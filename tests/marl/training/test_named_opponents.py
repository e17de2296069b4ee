"""Training against named players: `--opponents`, from the flag to the log line, and resumed to the bit."""

from pathlib import Path

import pytest
import torch
import yaml
from helpers.command import assert_one_line
from helpers.resumed import assert_equal
from helpers.submissions import SANDBOXED, controller, written
from helpers.training import SMOKE, TINY, here, logged, the_run
from helpers.training_states import small_state

from arena.encoders import encoder_named
from marl.config.train_config import read_config
from marl.metrics.run_metrics import of_run
from marl.networks.actors import make_actor
from marl.networks.policy import describe_actor
from marl.networks.spec import NetworkSpec
from marl.planning.planned_player import load_player
from marl.storage import snapshot
from marl.training.checkpointing import _match_settings
from marl.training.named_opponents import FOLDER, NamedOpponents
from marl.training.resume_plan import plan_resume
from opponents.players import find

SEED = 4242
PLANES = encoder_named("planes")
PART, WHOLE = 4, 8
# A pair of the eight matches each; the schedule has the last pair.
MIX = "FILE:0.25,level1:0.5:0.25,plan=1x1:FILE:0.25"
RUN = [*TINY, "--strategy", "adaptive", "--seed", str(SEED), "--no-eval_gif"]


@pytest.fixture(autouse=True)
def seed_printed():
    print(f"seed {SEED}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path, str]:
    """A run of WHOLE episodes, a run of PART episodes resumed up to WHOLE, and the output of the first."""
    *folders, other = (tmp_path_factory.mktemp(name) for name in ("whole", "parts", "other"))
    spec = NetworkSpec((6,), outputs=5)
    torch.manual_seed(SEED)
    weights, file = make_actor(PLANES, spec).state_dict(), other / "rival.safetensors"
    snapshot.write(file, weights, describe_actor(PLANES, spec))  # neither the team's encoder nor its shape
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    outputs = []
    for folder, episodes in zip(folders, (WHOLE, PART), strict=True):
        done = here(
            *RUN, "--opponents", MIX.replace("FILE", str(file)), "--runs_dir", folder, "--max_episodes", episodes
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        outputs.append(done.stdout)
    whole, parts = (the_run(folder) for folder in folders)
    file.unlink()  # the run folder has a copy
    done = here("train", "--resume", parts, "--max_episodes", WHOLE)
    torch.set_num_threads(threads)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "bit-exactly" in done.stdout
    return whole, parts, outputs[0]


def test_every_named_player_is_logged(runs) -> None:
    lines, (whole, _, output) = logged(runs[0]), runs
    rates = {name for line in lines for name in line if name.startswith("win_rate/")}
    assert rates >= {f"win_rate/{name}" for name in ("rival.safetensors", "level1:0.5", "plan=1x1:rival.safetensors")}
    named = yaml.safe_load((whole / "config.yaml").read_text())["schedule"]["opponents"]
    player, noisy, planned = (text.rpartition(":")[0] for text in named)
    assert f"opponents       25 % {player}, 25 % {noisy}, 25 % {planned}, 25 % adaptive over" in output
    assert f"opponents: {planned} decides by planning, on the host, in 2 matches" in output
    assert "won rival.safetensors" in output


def test_a_resumed_run_equals_the_run_that_was_not_stopped(runs) -> None:
    whole, parts, _ = runs
    lines = [[of_run(line) for line in logged(run)] for run in runs[:2]]
    assert lines[0] == lines[1]
    saved = [
        torch.load(run / "checkpoints" / f"episode_{WHOLE}" / "rank0.pt", weights_only=True) for run in (whole, parts)
    ]
    assert_equal(saved[1], saved[0])


def test_the_run_folder_keeps_the_policies(runs) -> None:
    """They are players, and a resumed run meets them, whatever has become of their first files."""
    files = sorted(path.name for path in (runs[0] / FOLDER).iterdir())
    assert len(files) == 2
    assert "rival.safetensors" in files[0]
    assert all(find(str(runs[0] / FOLDER / name), load_player).encoder is PLANES for name in files)


def test_a_submission_plays_in_training(tmp_path) -> None:
    path = written(tmp_path, controller("return [[1, 0, 0, 0]]"))
    words = [*RUN, "--opponents", f"{path}:0.25", "--runs_dir", tmp_path / "runs", "--max_episodes", PART]
    done = here(*words, *(["--uncaged"] if SANDBOXED.uncaged else []))
    assert done.returncode == 0, done.stderr
    assert "decides in a process per match, on the host, in 2 matches" in done.stdout
    assert any(f"win_rate/{tmp_path.name}" in line for line in logged(the_run(tmp_path / "runs")))


def test_a_submission_that_cannot_be_loaded_ends_the_run(tmp_path) -> None:
    path = written(tmp_path, "import no_such_package\n")
    words = [*RUN, "--opponents", f"{path}:0.25", "--runs_dir", tmp_path / "runs"]
    done = here(*words, *(["--uncaged"] if SANDBOXED.uncaged else []))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 + SANDBOXED.uncaged
    assert "no_such_package" in done.stderr


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("champoin:0.4", ["unknown player 'champoin', did you mean champion?"]),
        ("champion", ["'champion' has no share of the matches; write PLAYER:SHARE"]),
        ("champion:1.5", ["the share of champion is 1.5; allowed: above 0, at most 1"]),
        ("champion:0.6,level1:0.6", ["the shares add up to 1.2; allowed: at most 1"]),
        ("champion:0.01", ["the share 0.01 of champion is less than two of 16 matches"]),
        ("plan:level1:0.5", ["level1 is no trained policy"]),
        ("level1:2:0.5", ["noise of level1 is 2.0; allowed: 0 to 1"]),
        ("last:0.5", ["last: there is no run in runs/snakes_3v3 yet"]),
    ],
)
def test_mistakes_are_told_in_one_line(value, parts, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(here("train", "--dry_run", "--config", SMOKE, "--device", "cpu", "--opponents", value), *parts)


def test_a_dry_run_shows_the_mix(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mix.yaml").write_text("opponents: {champion: 0.25, territory: 0.125}\n")
    done = here("train", "--dry_run", "--config", SMOKE, "--config", "mix.yaml", "--device", "cpu")
    assert "opponents       25 % champion, 12.5 % territory, 62.5 % curriculum\n" in done.stdout, done.stderr


def test_short_names_become_paths(runs, monkeypatch) -> None:
    monkeypatch.chdir(runs[0].parents[1])
    Path("runs").symlink_to(".")
    plan = plan_resume(["--opponents", "last:0.25,level1:0.5:0.25", "--runs_dir", "elsewhere"])
    path = f"runs/snakes_3v3/{runs[0].name}"
    assert plan.config.schedule.shares == {path: 0.25, "level1:0.5": 0.25}
    assert read_config(plan.argv).schedule == plan.config.schedule, "ranks get the paths"


def test_labels_are_short_and_mean_one_player_each() -> None:
    named = object.__new__(NamedOpponents)
    named.names = [
        "territory",
        "level1:0.5",
        "runs/snakes_3v3/run1_a",
        "plan:runs/snakes_3v3/run1_a",
        "a/submission.py",
    ]
    assert named.labels == ["territory", "level1:0.5", "run1_a", "plan:run1_a", "a"]
    named.names = ["x/team", "y/team", "runs/level1", "runs/past_5"]
    assert named.labels == named.names


def test_without_named_players_nothing_changes() -> None:
    state = small_state()
    assert state.named.seats == state.frozen_seats == []
    assert "named" not in _match_settings(state), "old checkpoints still fit"

"""Every command of the README and of the main pages of docs/ is understood as it stands, in order and in one process.

Trainings are dry runs with few matches; `eval` and `league` play the first turns of two matches, `export` compares few
moves of a small team; what opens a window, measures for minutes or draws a video is parsed, with all checks of its
flags, and not run.
"""

import importlib
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from helpers.command import ROOT
from helpers.known_flags import flags_of
from helpers.short_matches import SHORT
from helpers.training import TINY, alone, here, the_run

from marl.cli import main as cli
from marl.config.options import Schema
from marl.config.train_config import ALIASES, TrainConfig, read_config
from marl.export import check
from opponents import match

pytestmark = pytest.mark.in_order  # as a reader types them: some read what others have written
# All pages of docs/ but cluster.md, which has flags of torchrun and sbatch.
PAGES = sorted(file.stem for file in (ROOT / "docs").glob("*.md") if file.stem != "cluster")
# Of no command, of TensorBoard, of torchrun, of the miner of positions, of the comparison scripts; in a rule.
OTHER_FLAGS = (
    *("version", "logdir", "nproc_per_node", "count", "learners", "write", "no_NAME", "player"),
    *("kills", "pace", "every", "episodes", "folder", "minutes"),  # of tests/soak.py
    "slow",  # of ./test.sh tests/attack
    *("minutes_each", "sizes", "league_matches"),  # of scripts/comparison.py and scripts/size_ladder.py
)
WITH_COMMANDS = (
    "README.md",
    *(f"docs/{name}.md" for name in ("index", "training", "learners", "scaling", "viewers", "opponents", "strength")),
    *(f"docs/{name}.md" for name in ("rules", "planning", "submission", "course")),
)
TEXT = "\n".join((ROOT / page).read_text() for page in (*WITH_COMMANDS, "docs/week.md", "docs/performance.md"))
NO_COMMANDS = ("source .venv/bin/activate", "./test.sh")  # for the shell; of its own tests
# A placeholder in the text -> what the test puts there.
PLACEHOLDERS = {"RUN": "last", "NAME": "level0", "COMMAND": "doctor"}
SMALL = ["--device", "cpu", "--precision", "fp32", "--matches", "16", "--body", "8,8"]
SMALL_OF = {"ddpg": ["--buffer_size", "4800"], "ppo": ["--update_interval", "256", "--batch_size", "48"]}
# Beginnings of commands that are parsed only; a replay with an output is made, unless it takes long.
PARSED = (
    *("play", "bench", "doctor", "exploit", "grade", "league --matches", "league --players level1"),
    *("league --players level2,probes", "league --folder", "eval --home plan:"),
    "eval --home my_team/submission.py",  # it plans in every move
    *("eval --home champion --away development", "league --players champion,plan:champion"),  # many opponents
)
LONG = ("--gif", "--mp4")


def block_commands(text: str = TEXT) -> list[str]:
    """The lines of all blocks without a language, comments cut off."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    plain = [block for language, block in blocks if not language]
    lines = [line.partition(" #")[0].strip() for block in plain for line in block.splitlines()]
    return [line for line in lines if re.match(r"(\./|python |torchrun |[A-Z_]+=\S+ )", line)]


def inline_commands() -> list[str]:
    """The commands within the text."""
    text = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    return [line for line in re.findall(r"`(python -m marl [^`]+)`", text) if "…" not in line]


COMMANDS = list(dict.fromkeys([*block_commands(), *inline_commands()]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with two runs, as after two short trainings."""
    folder = tmp_path_factory.mktemp("readme")
    done = here(*TINY, "--runs_dir", folder / "runs", "--max_episodes", "8", "--no-eval_gif")
    assert done.returncode == 0, done.stderr
    run = the_run(folder / "runs")
    another = shutil.copytree(run, run.with_name("another"))
    about = json.loads((run / "run.json").read_text())
    (another / "run.json").write_text(json.dumps(about | {"started_unix": about["started_unix"] + 1}))
    (folder / "configs").symlink_to(ROOT / "configs")  # commands of a checkout
    for name in ("docs", "teams"):
        (folder / name).mkdir()
    week = (ROOT / "docs" / "week.md").read_text()
    (folder / "my_reward.py").write_text(re.search(r"^```python\n(.*?)^```$", week, re.M | re.S)[1])
    return folder


def as_words(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words after `python -m marl` that a line of a shell means."""
    words = shlex.split(line)
    while re.fullmatch(r"[A-Z_]+=\S+", words[0]):
        name, value = words.pop(0).split("=", 1)
        if name != "CUDA_VISIBLE_DEVICES":  # torch has read it already
            monkeypatch.setenv(name, value)
    if words[0] == "./train_ddp.sh":
        config = [] if "CONFIG=" not in line else ["--config", re.search(r"CONFIG=(\S+)", line)[1]]
        return ["train", "--distributed", *config, *words[1:]]
    words = words[words.index("-m") + 1 :]
    assert words.pop(0) == "marl", line
    if ">" in words:
        words = words[: words.index(">")]
    if words[0] in ("export", "eval"):  # the same, of a network that is written, looked at and played in less time
        words = ["champion_small" if word == "champion" else word for word in words]
    return [PLACEHOLDERS.get(word, word) for word in words]


def small_training(words: list[str]) -> list[str]:
    """The words of a training that fits a test."""
    if "--resume" in words:
        return [*words, "--device", "cpu"]
    own = [word for word in words if word not in ("--distributed", "--dry_run", "--print_config", "--league")][1:]
    flags = [*SMALL, *SMALL_OF[read_config(_without_ranks(own)).learner_section]]
    return [*words, *flags]


def _without_ranks(words: list[str]) -> list[str]:
    ranks = ("--num_gpus", "--master_port", "--nproc_per_node", "--max_restarts")
    return [word for i, word in enumerate(words) if word not in ranks and (i == 0 or words[i - 1] not in ranks)]


@pytest.mark.parametrize("line", [line for line in COMMANDS if line not in NO_COMMANDS])
def test_every_command_is_understood(line, folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(match, "TURNS", SHORT)
    monkeypatch.setattr(check, "MOVES", 4)  # each takes as long as a plan
    words = as_words(line, monkeypatch)
    name, rest = words[0], " ".join(words)
    if "--help" in words:
        done = here(*words)
    elif "--import" in words:  # own code stays in its process
        done = alone(*(folder / word if word.endswith(".py") else word for word in words), "--dry_run")
    elif name == "train":
        words = small_training(words)
        done = here(*words, *([] if "--print_config" in words else ["--dry_run"]))
        if "--num_gpus" in words:
            assert "this machine has no GPU" in done.stderr, "the device of the test is the CPU"
            return
        if "--print_config" in words:
            assert yaml.safe_load(done.stdout)["algo"] == "ppo"
    elif rest.startswith(PARSED) or rest == "replay match.jsonl" or {*words} & {*LONG}:
        seen = []
        module = importlib.import_module(cli.COMMANDS[name][0])
        monkeypatch.setattr(module, "run", lambda args: seen.append(args) or 0)
        done = here(*words)
        assert len(seen) == 1, done.stderr
        if name == "bench" and seen[0].set_aside:
            read_config(seen[0].set_aside)
    else:
        small = ["--matches", "2"] if name in ("eval", "league") else []
        done = here(*words, *small)
    assert done.returncode == 0, done.stderr


def test_the_files_of_the_readme_were_written(folder) -> None:
    for name in ("match.jsonl", "match.html", "league.html", "my_team/submission.py", "curves.png"):
        assert (folder / name).exists(), name


def test_both_readmes_have_the_same_commands_and_figures() -> None:
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md"))
    assert block_commands(english) == block_commands(chinese)
    python = r"^```python\n(.*?)^```$"
    assert re.findall(python, english, re.M | re.S) == re.findall(python, chinese, re.M | re.S)
    links, rates, code = r"\]\(([^)]+)\)", r"\d+\.\d %", r"`([^`\n]+)`"
    for pattern in (links, rates, code):
        texts = (english, chinese.replace("](docs/zh/", "](docs/"))
        kept = [{*re.findall(pattern, text)} - {"README.md", "README.zh.md"} for text in texts]
        assert kept[0] == kept[1]
    assert max(english.count("\n"), chinese.count("\n")) <= 130


@pytest.mark.parametrize("page", ["README.md", "README.zh.md", "SECURITY.md", *(f"docs/{name}.md" for name in PAGES)])
def test_every_flag_in_a_text_exists(page) -> None:
    schema = Schema(TrainConfig, ALIASES)
    known = {flag.name[2:].replace("-", "_") for name in cli.COMMANDS for flag in flags_of(name)}
    known |= {*schema.options, *schema.aliases, *OTHER_FLAGS} | {option.name for option in schema.options.values()}
    found = re.findall(r"(?<![\w!-])--(?:no-)?([a-z][\w.-]*\w)", (ROOT / page).read_text())
    assert {flag.replace("-", "_") for flag in found} <= known


def test_the_commands_were_found() -> None:
    assert len(block_commands()) >= 30
    assert all(line in COMMANDS for line in ("./train_ddp.sh", "python -m marl runs", *NO_COMMANDS[1:]))
    used = {word for line in COMMANDS for word in line.split() if word in cli.COMMANDS}
    assert used >= {"train", "eval", "play", "replay", "export", "league", "runs", "bench", "doctor"}

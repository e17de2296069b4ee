"""The completion scripts: made from the tables of the help, and what bash completes with them."""

import shutil
import subprocess

import pytest
from helpers.training import here

from marl import cli, completion
from marl.config.options import Schema
from marl.config.train_config import TrainConfig

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
CASES = {
    ("tr",): ["train"],
    ("train", "--algo", "p"): ["ppo", "ppo_lstm"],
    ("train", "--opponent-difficulty-strategy", "ad"): ["adaptive"],
    ("train", "--opponent_difficulty_strategy", "ad"): ["adaptive"],
    ("train", "--config", "champ"): ["champion", "champion_60s", "champion_small"],
    ("train", "--resume", "la"): ["last"],
    ("train", "--dry"): ["--dry_run"],
    ("eval", "--home", "my"): ["my_run"],
    ("eval", "--home", "terr"): ["territory"],
    ("runs", "co"): ["compare"],
    ("runs", "delete", "my"): ["my_run"],
    ("bench", "po"): ["positions"],
    ("completion", "f"): ["fish"],
}


@needs_bash
def test_bash_completes(tmp_path):
    (tmp_path / "runs" / "snakes_3v3" / "my_run").mkdir(parents=True)
    calls = []
    for words in CASES:
        line = " ".join(f"'{word}'" for word in ("snakes", *words))
        calls.append(f"COMP_WORDS=({line}); COMP_CWORD={len(words)}")
        calls.append('_snakes snakes "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"; echo ${COMPREPLY[@]}')
    text = here("completion", "bash").stdout + "\n".join(calls)
    done = subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert dict(zip(CASES, map(str.split, done.stdout.splitlines()), strict=True)) == CASES


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_line_that_installs_it_can_be_pasted(shell, monkeypatch):
    monkeypatch.setenv("SNAKES_PROGRAM", ".venv/bin/python -m marl")
    assert f".venv/bin/python -m marl completion {shell}" in completion.script(shell).splitlines()[1]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_script_knows_every_command_and_option(shell):
    text = here("completion", shell).stdout
    prefix = "-l " if shell == "fish" else "--"
    for name in cli.COMMANDS:
        assert f" {name}" in text
    schema = Schema(TrainConfig)
    for option in schema.options.values():
        assert f"{prefix}{schema.shortest_flag(option).removeprefix('--')}" in text

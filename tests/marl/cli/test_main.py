"""The command line: help, mistakes in one line, both spellings of a flag."""

import importlib
import json
import shlex
import subprocess
import sys
from importlib import metadata

import pytest
from helpers.command import ROOT, assert_one_line, in_fresh_process, snakes
from helpers.training import here

import marl
from arena.errors import ArenaError
from marl.cli import main as cli
from marl.cli.invocation import command


def test_help_lists_every_command():
    result = snakes("--help")
    assert result.returncode == 0
    assert all(name in result.stdout for name in cli.COMMANDS)


def test_help_leads_to_every_step(monkeypatch):
    """Train, measure, watch, compare, delete and export: each is a line that can be copied."""
    monkeypatch.setenv("SNAKES_PROGRAM", "snakes")
    lines = [line.split("  ")[1] for line in cli._overview().splitlines() if line.startswith("  snakes ")]
    assert [shlex.split(line)[1] for line in lines] == ["train", "eval", "play", "runs", "runs", "runs", "export"]
    assert {shlex.split(line)[2] for line in lines[4:6]} == {"compare", "delete"}
    monkeypatch.setenv("SNAKES_PROGRAM", ".venv/bin/python -m marl")
    assert max(map(len, cli._overview().splitlines())) <= 100
    assert not cli.COMMANDS.keys() - {name for names in cli.GROUPS.values() for name in names}


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_without_loading_torch(name, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of torch would now fail
    try:
        code = cli.main([name, "--help"])
    except SystemExit as stopped:  # argparse
        code = stopped.code
    assert code == 0
    assert f"usage: {command(name)}" in capsys.readouterr().out


def test_help_as_a_command(capsys):
    assert cli.main(["help"]) == 0
    assert capsys.readouterr().out == cli._overview() + "\n"
    assert cli.main(["help", "train"]) == 0
    assert f"usage: {command('train')}" in capsys.readouterr().out


def test_no_command():
    assert_one_line(snakes(), "missing", "train, sweep, runs, report")


def test_unknown_command_lists_the_known_ones_and_guesses():
    assert_one_line(here("docter"), "'docter'", "did you mean doctor?", "train, sweep, runs, report")


def test_unknown_flag_in_place_of_a_command():
    assert_one_line(here("--frobnicate"), "--frobnicate")
    assert_one_line(here("--versoin"), "did you mean --version?")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["bench", "--secnods", "1"], ["--secnods", "did you mean --seconds?"]),
        (["bench", "--sec", "1"], ["--sec"]),  # no abbreviations: they change meaning when a flag is added
        (["bench", "arenas"], ["'arenas'", "known: arena"]),
        (["bench", "--device", "tpu"], ["'tpu'", "cpu", "cuda"]),
        (["bench", "--matches", "1,zwei"], ["'1,zwei'", "--matches"]),
        (["bench", "--matches", "0"], ["'0'"]),
        (["bench", "--seconds", "-1"], ["--seconds"]),
        (["bench", "--seconds", "nan"], ["'nan'"]),
        (["bench", "--seconds"], ["--seconds"]),
        (["doctor", "extra"], ["'extra'"]),
        (["demo", "--every", "0"], ["--every", "'0'"]),
    ],
)
def test_mistakes_are_one_line(words, parts):
    assert_one_line(here(*words), *parts)


def test_a_mistake_that_the_arena_finds_is_one_line():
    assert_one_line(here("demo", "--seed", "-1"), "seed is -1")


def test_the_version():
    result = here("--version")
    assert (result.returncode, result.stderr) == (0, "")
    program, packages = result.stdout.splitlines()
    assert program.startswith(f"snakes-3v3 {marl.__version__}")
    assert ", commit " in program or not (ROOT / ".git").exists()
    assert f"torch {metadata.version('torch')}, numba {metadata.version('numba')}" in packages


OTHERS = [name for name in cli.COMMANDS if name != "doctor"]  # it makes a report of its own
# Commands with their words as JSON; output goes to files in a folder, exit codes to stdout.
WITHOUT_NUMBA = """
import json, os, sys
sys.modules["numba"] = None
from marl.cli.main import main
codes = {}
for name, words in json.loads(sys.argv[2]).items():
    child = os.fork()
    if child == 0:
        for stream, ending in ((sys.stdout, "out"), (sys.stderr, "err")):
            os.dup2(os.open(f"{sys.argv[1]}/{name}.{ending}", os.O_WRONLY | os.O_CREAT), stream.fileno())
        code = main([name, *words])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    codes[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(codes))
"""


@pytest.fixture(scope="module")
def without_numba(tmp_path_factory) -> dict[str, subprocess.CompletedProcess[str]]:
    """What every command says where numba is missing."""
    words = {"eval": ["--home", "level0", "--away", "level1"], "export": ["champion", "--html", "x.html"]}
    words |= {"exploit": ["level0"], "replay": ["tests/data/long_match.jsonl"], "play": ["--red", "level0"]}
    words["grade"] = ["tests"]
    folder, asked = tmp_path_factory.mktemp("commands"), {name: words.get(name, []) for name in OTHERS}
    call = [sys.executable, "-c", WITHOUT_NUMBA, folder, json.dumps(asked)]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return {
        name: subprocess.CompletedProcess(
            name, code, *((folder / f"{name}.{end}").read_text() for end in ("out", "err"))
        )
        for name, code in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize("name", OTHERS)
def test_a_missing_package_is_one_line_for_every_command(name, without_numba):
    result = without_numba[name]
    assert_one_line(result, "the package numba is missing in ", sys.executable.removeprefix(f"{ROOT}/"))
    assert "train_ddp.sh --help" in result.stderr or "pip install -r" in result.stderr


@pytest.mark.parametrize("module", ["marl.nothing", "json.nothing"])
def test_a_module_missing_in_a_package_that_is_there_is_a_bug(with_command, module):
    with_command(lambda args: importlib.import_module(module))
    with pytest.raises(ModuleNotFoundError):
        cli.main(["fake"])


def test_only_the_name_of_an_option_is_respelled():
    words = ["--run_name", "my_run", "--save_interval=a_b", "x_y", "--", "--as_it_is"]
    assert cli._with_dashes(words) == ["--run-name", "my_run", "--save-interval=a_b", "x_y", "--", "--as_it_is"]


class FakeCommand:
    """A command whose run does what the test wants."""

    def __init__(self, run):
        self.run = run

    def add_arguments(self, parser):
        parser.add_argument("--run-name")


@pytest.fixture
def with_command(monkeypatch):
    def add(run):
        monkeypatch.setitem(sys.modules, "fake_command", FakeCommand(run))
        monkeypatch.setitem(cli.COMMANDS, "fake", ("fake_command", "Fake."))

    return add


@pytest.mark.parametrize("words", [["--run_name", "a_b"], ["--run-name", "a_b"], ["--run_name=a_b"]])
def test_both_spellings_reach_the_command(with_command, words):
    seen = []
    with_command(lambda args: seen.append(args.run_name) or 7)
    assert cli.main(["fake", *words]) == 7
    assert seen == ["a_b"]


def test_interrupt_is_130_and_one_line(with_command, capsys):
    def run(args):
        raise KeyboardInterrupt

    with_command(run)
    assert cli.main(["fake"]) == 130
    assert capsys.readouterr().err == "snakes: interrupted\n"


def test_arena_errors_are_one_line_and_bugs_are_not_hidden(with_command, capsys):
    def mistaken(args):
        raise ArenaError("seed is -1")

    with_command(mistaken)
    assert cli.main(["fake"]) == 2
    assert capsys.readouterr().err == "snakes: seed is -1\n"

    def broken(args):
        raise ValueError("a bug")

    with_command(broken)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(["fake"])


def test_demo_plays_a_match_to_its_end():
    result = here("demo", "--every", "100")
    assert result.returncode == 0, result.stderr
    last = result.stdout.strip().splitlines()[-1]
    assert last.startswith(("red wins", "blue wins", "draw"))
    assert "territory (red) against level2 (blue)" in last


def test_a_closed_output_is_no_error() -> None:
    command = f"{shlex.quote(sys.executable)} -m marl --help | head -c 1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True)
    assert (done.stdout, done.stderr) == (b"u", b"")


COLLECTED = """
import gc, sys
from marl.cli.main import main
before, sys.argv[1:] = gc.get_threshold(), ["--help"]
main(["--help"])
same = gc.get_threshold() == before
main()
print(same, gc.get_threshold())
"""


def test_only_a_process_of_its_own_searches_less_for_garbage() -> None:
    assert in_fresh_process(COLLECTED).splitlines()[-1] == "True (50000, 20, 20)"

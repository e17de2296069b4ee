"""The recipes of containers name files that exist, hold all that the program needs, and agree with each other.

They were built by hand (docs/cluster.md); a build needs a network and minutes."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTAINERFILE = (ROOT / "containers/Containerfile").read_text()
DEFINITION = (ROOT / "containers/snakes.def").read_text()
PROGRAM = "/snakes/.venv/bin/python -m marl"


def section(name: str) -> list[str]:
    """Lines of a section of the Apptainer definition."""
    body = DEFINITION.split(f"\n%{name}\n")[1].split("\n%")[0]
    return [line.strip() for line in body.splitlines() if line.strip()]


def kept_by_ignore_file() -> set[str]:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"  # nothing but what follows: neither .git nor runs nor .venv
    patterns = [line.removeprefix("!") for line in lines if line.startswith("!")]
    found = {pattern: [path.name for path in ROOT.glob(pattern)] for pattern in patterns}
    assert all(found.values()), found
    return {name for names in found.values() for name in names}


def copied_by_definition() -> set[str]:
    pairs = [line.split() for line in section("files")]
    assert all(target == f"/snakes/{source}" for source, target in pairs)
    return {source for source, _ in pairs}


def test_both_recipes_copy_the_same_files_and_all_of_them_exist() -> None:
    assert copied_by_definition() == kept_by_ignore_file()
    assert all((ROOT / name).exists() for name in copied_by_definition())


def test_they_copy_what_the_program_and_its_set_up_read() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()
    packages = re.search(r'^include = \["(\w+)\*", "(\w+)\*", "(\w+)\*"\]$', pyproject, re.MULTILINE).groups()
    locks = {path.name for path in ROOT.glob("requirements*.lock")}
    needed = {
        *packages,
        *locks,
        "configs",
        "scripts",
        "containers",
        "train_ddp.sh",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    }
    assert needed <= copied_by_definition()


def test_both_set_up_and_start_the_same_program() -> None:
    for recipe in (CONTAINERFILE, DEFINITION):
        assert re.search(r"^ARG BASE=\S+$|^ +BASE=\S+$", recipe, re.MULTILINE)
        assert recipe.count("/snakes/containers/set_up.sh") == 1
        assert "PATH=/snakes/.venv/bin:$PATH" in recipe
    assert f'exec {PROGRAM} "$@"' in section("runscript")
    start = ", ".join(f'"{word}"' for word in PROGRAM.split())
    assert f"ENTRYPOINT [{start}]\n" in CONTAINERFILE


def test_the_bases_are_named_alike() -> None:
    bases = [
        set(re.findall(r"BASE=(?:docker\.io/(?:library/)?)?(\S+)", recipe)) for recipe in (CONTAINERFILE, DEFINITION)
    ]
    assert bases[0] == bases[1]
    assert len(bases[0]) == 2  # without and with a GPU


def test_the_set_up_is_a_good_script() -> None:
    script = ROOT / "containers/set_up.sh"
    assert script.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", script], capture_output=True, timeout=60).returncode == 0

"""The configurations that come with the program, by name. `marl/configs` is a link to `configs/`, as package data."""

import difflib
from itertools import takewhile
from pathlib import Path

from marl.errors import UserError

FOLDER = Path(__file__).resolve().parent.parent / "configs"
SUFFIX = ".yaml"


def find_config(name: str) -> Path:
    """The file of this path; or else the configuration of ours with this name, with or without `.yaml`."""
    path = Path(name)
    if path.is_file():
        return path
    if name.removesuffix(SUFFIX) in config_names():
        return FOLDER / (name.removesuffix(SUFFIX) + SUFFIX)
    if not path.exists():
        names = config_names()
        close = difflib.get_close_matches(path.stem, names, n=1)
        guess = f", did you mean {close[0]}?" if close else ""
        raise UserError(f"--config {name}: No such file{guess}; by name there are: {', '.join(names)}")
    return path


def defaults_of(name: str) -> Path | None:
    """The configuration of ours with this name, if there is one; a file of the user with this name does not count."""
    return FOLDER / (name + SUFFIX) if name in config_names() else None


def about_configs() -> dict[str, str]:
    """Name -> the first sentence of the comment at the top of its file."""
    about = {}
    for name in config_names():
        lines = (FOLDER / (name + SUFFIX)).read_text(encoding="utf-8").splitlines()
        comment = " ".join(line.lstrip("# ") for line in takewhile(lambda line: line.startswith("#"), lines))
        about[name] = comment.partition(". ")[0].rstrip(".")
    return about


def config_names() -> list[str]:
    """The names of all configurations that come with the program."""
    return sorted(file.stem for file in FOLDER.glob("*" + SUFFIX))

"""Optional packages: how to install them for the interpreter that runs. Their names are in pyproject.toml."""

import shlex
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTION = "snakes-3v3"


def install_hint(extra: str) -> str:
    """A command that installs the packages of an extra of ours, like `video`.

    In a checkout it installs from there. Elsewhere it names the packages themselves, never this project: the project is
    on no public index, and a stranger could register its name there.
    """
    if (ROOT / "pyproject.toml").is_file():
        place = "." if Path.cwd() == ROOT else str(ROOT)
        words = ["-e", f"{place}[{extra}]"]
    else:
        parts = [line.partition(";") for line in metadata.requires(DISTRIBUTION) or ()]
        words = [package.strip() for package, _, marker in parts if f"extra == {extra!r}" in marker.replace('"', "'")]
    return f"install it with: {shlex.join([sys.executable, '-m', 'pip', 'install', *words])}"

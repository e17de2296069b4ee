"""The plugins that a run was trained with, as its run.json names them: written at each start, imported again later."""

from pathlib import Path
from typing import Any

from marl import plugins
from marl.errors import UserError
from marl.storage.run_folder import read_run

FIELD = "imports"  # of run.json


def about_imports() -> dict[str, Any]:
    """The field of run.json about the plugins of this process."""
    return {FIELD: [plugin._asdict() for plugin in plugins.imported()]}


def import_of_run(run: Path | None) -> str:
    """Import the plugins of a run, as far as that is safe (marl/plugins.py); returns the first reason why not."""
    problems = [plugins.import_again(plugin, run) for plugin in _recorded(run)] if run else []
    return next(filter(None, problems), "")


def require_imports(run: Path | None) -> None:
    """The same; a UserError if one cannot be imported: a training without it would be another one."""
    problem = import_of_run(run)
    if problem:
        raise UserError(problem)


def _recorded(run: Path) -> list[plugins.Plugin]:
    """The plugins that run.json names. What is none, in a file of a stranger, is left out."""
    entries = read_run(run).get(FIELD)
    fields = plugins.Plugin._fields
    return [
        plugins.Plugin(**entry)
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and entry.keys() == {*fields} and all(type(entry[name]) is str for name in fields)
    ]

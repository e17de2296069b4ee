"""Own code from outside: modules and files that add learners, networks, encoders, rewards, opponents and schedules.

They are imported because the user says so (`--import`, `import:` in a YAML file, an installed package with an entry
point), or because a run was trained with them and its user has imported that very file before. What a run of a stranger
names is never imported. A file counts as the same if its text has the same hash; what it imports is not compared.
"""

import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from marl.errors import UserError

FLAG, KEY = "--import", "import"  # of a command line, and of a YAML file
GROUP = "snakes_3v3.plugins"  # entry points of installed packages: modules
KNOWN = "imported"  # file in the user's cache: a line per file, its hash and its path


class Plugin(NamedTuple):
    """A module or file that is imported."""

    name: str  # of the module
    file: str  # its source, an absolute path
    sha256: str

    @property
    def is_of_package(self) -> bool:
        """Whether it needs the package that it is or belongs to; any other one is run from its file."""
        return "." in self.name or Path(self.file).name == "__init__.py"

    @property
    def line(self) -> str:
        """Its line in the file KNOWN."""
        return f"{self.sha256} {self.file}"

    @property
    def request(self) -> str:
        """What to write after --import, in any folder."""
        return self.name if self.is_of_package else self.file


_plugins: dict[str, Plugin] = {}  # by file
_is_searched = False  # whether entry points have been looked for


def imported() -> tuple[Plugin, ...]:
    """All plugins of this process, in the order of their import."""
    return tuple(_plugins.values())


def split_imports(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The modules and files that a command line imports, and all other words."""
    names, others, rest = list[str](), list[str](), list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return names, [*others, word, *rest]
        if word.startswith(f"{FLAG}="):
            names.append(word.partition("=")[2])
        elif word != FLAG:
            others.append(word)
        elif rest and not rest[0].startswith("--"):
            names.append(rest.pop(0))
        else:
            raise UserError(f"{FLAG} needs a module or a .py file")
    return names, others


def as_names(value: Any, where: str) -> list[str]:
    """The modules and files under the key `import` of a YAML file: one, or a list."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{where}: {KEY} is {value!r}; allowed: a module or a .py file, or a list of them")
    return names


def as_yaml() -> str:
    """The lines of a YAML file that import what this process has imported; none if that is nothing."""
    import yaml

    names = [plugin.request for plugin in imported()]
    return yaml.safe_dump({KEY: names}, allow_unicode=True) if names else ""


def import_plugins(names: Iterable[str | os.PathLike[str]]) -> None:
    """Import modules and files that the user has named, each once."""
    for each in names:
        name = os.fspath(each)
        if _is_file(name):
            module = _import_file(Path(name), FLAG)
        else:
            _find_modules_in(Path.cwd())  # as `python -m` does
            module = _import_module(name, FLAG)
        _remember(_add(module))


def import_entry_points() -> None:
    """Import the plugins of installed packages, once."""
    global _is_searched
    if _is_searched:
        return
    _is_searched = True
    for point in _entry_points():
        _remember(_add(_import_module(point.module, f"the installed plugin {point.name},")))


def has_entry_points() -> bool:
    """Whether an installed package has plugins that are not imported yet."""
    return not _is_searched and len(_entry_points()) > 0


def _entry_points() -> Sequence[Any]:
    from importlib import metadata  # not at import: it takes longer than all the rest of a help text

    return tuple(metadata.entry_points(group=GROUP))


def import_again(plugin: Plugin, run: Path) -> str:
    """Import a plugin that a run was trained with, unless it or another one of its name is imported already.

    Returns why it cannot be; nothing of it is then run. It must be the file of the training, outside the run's folder,
    which may come from a stranger, and one that this user has imported before.
    """
    if plugin.file in _plugins or plugin.name in {each.name for each in _plugins.values()}:
        return ""
    file, advice = Path(plugin.file), f"give it with {FLAG} FILE"
    trained = f"{run} was trained with {plugin.file}, which"
    if not file.is_absolute() or run.resolve() in file.resolve().parents:
        return f"{trained} lies in the run's own folder; if you trust it, {advice}"
    try:
        digest = _digest(file)
    except OSError:
        return f"{trained} is gone; {advice}"
    if digest != plugin.sha256:
        return f"{trained} has changed since; to use it as it is now, {advice}"
    if plugin.line not in _known():
        return f"{trained} you have not imported here before; if you trust it, {advice}"
    if plugin.is_of_package:
        return _import_package(plugin, f"{trained} is not the module {plugin.name} here; {advice}")
    _add(_import_file(file, FLAG))
    return ""


def _is_file(name: str) -> bool:
    return name.endswith(".py") or os.sep in name


def _find_modules_in(folder: Path) -> None:
    """Let imports find what is in a folder; after all others, so that it hides nothing."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _import_file(file: Path, source: str) -> ModuleType:
    """The module of a file, run from the very text that is hashed."""
    name = re.sub(r"\W", "_", file.stem)
    path = file.resolve()
    known = sys.modules.get(name)
    if known is not None and _file_of(known) == str(path):
        return known
    found = importlib.util.find_spec(name) if known is None else None
    if known is not None or (found is not None and found.origin != str(path)):
        raise UserError(f"{source} {file}: there is a module {name} already; rename the file")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or not path.is_file():
        raise UserError(f"{source} {file}: there is no such Python file; give a module or a .py file")
    module = importlib.util.module_from_spec(spec)
    _find_modules_in(path.parent)  # for what stands beside it
    sys.modules[name] = module  # as Numba and pickle need it
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except OSError as error:
        del sys.modules[name]
        raise UserError(f"{source} {file}: {error.strerror or error}") from None
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UserError(f"{source} {file}: {describe_error(error)}") from error
    return module


def _import_module(name: str, source: str) -> ModuleType:
    """The module of a name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise UserError(f"{source} {name}: {describe_error(error)}") from error
        raise UserError(f"{source} {name}: there is no such module; give a module or a .py file") from None
    except (Exception, SystemExit) as error:
        raise UserError(f"{source} {name}: {describe_error(error)}") from error


def _import_package(plugin: Plugin, problem: str) -> str:
    """Import a module of a package by its name, if that leads to its file; returns the problem if not."""
    path = Path(plugin.file).with_suffix("")
    parts = path.parts[:-1] if path.name == "__init__" else path.parts
    names = tuple(plugin.name.split("."))
    if parts[-len(names) :] != names:
        return problem
    _find_modules_in(Path(*parts[: -len(names)]))
    with suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(plugin.name)
        if spec is not None and spec.origin is not None and str(Path(spec.origin).resolve()) == plugin.file:
            _add(_import_module(plugin.name, FLAG))
            return ""
    return problem


def _add(module: ModuleType) -> Plugin:
    """Count a module among the plugins."""
    file = _file_of(module)
    if file is None:
        raise UserError(f"{FLAG} {module.__name__}: it has no Python source; give a module or a .py file")
    _check_tables(file)
    return _plugins.setdefault(file, Plugin(module.__name__, file, _digest(Path(file))))


def _check_tables(file: str) -> None:
    """UserError for an entry that could not run. Tables that nobody has loaded have no new entries."""
    rewards, scripted = sys.modules.get("marl.rewards"), sys.modules.get("opponents.scripted")
    for name in rewards.PRESETS if rewards else ():
        rewards.weights_of(name)
    for name, decide in scripted.SCRIPTED.items() if scripted else ():
        if not hasattr(decide, "py_func") and not os.environ.get("NUMBA_DISABLE_JIT"):
            raise UserError(
                f"{FLAG} {file}: opponent {name!r} is no compiled function; put @njit of arena.jit before it"
            )


def _file_of(module: ModuleType) -> str | None:
    file = getattr(module, "__file__", None)
    return str(Path(file).resolve()) if file else None


def _digest(file: Path) -> str:
    if not file.is_file():  # reading a FIFO would wait for ever
        raise FileNotFoundError(str(file))
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _known() -> set[str]:
    """Lines of what this user has imported on purpose. With the path: a copy may stand beside other files."""
    file = _known_file()
    with suppress(OSError, ValueError):
        if file is not None:
            return set(file.read_text(encoding="utf-8").splitlines())
    return set()


def _remember(plugin: Plugin) -> None:
    """Note that this user has imported it; where that cannot be written, a run will ask for it again."""
    file = _known_file()
    if file is None or plugin.line in _known():
        return
    with suppress(OSError, ValueError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(f"{plugin.line}\n")


def _known_file() -> Path | None:
    from marl.compute.choice_cache import cache_file  # not at import: it brings the arena, which help does without

    file = cache_file()
    return None if file is None else file.with_name(KNOWN)


def describe_error(error: BaseException) -> str:
    """An error in code of a user, with the place in it; libraries that it calls are left out."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in Path(frame.filename).parts] or frames
    place = f"{own[-1].filename}, line {own[-1].lineno}: " if own else ""
    if isinstance(error, SyntaxError):  # its message names the place
        place = ""
    return f"{place}{type(error).__name__}: {error}"

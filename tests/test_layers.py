"""Who may import whom: marl -> opponents -> arena, packages low to high, and each outside package in its one place."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.command import ROOT, in_fresh_process

LAYERS = ("arena", "opponents", "marl")
FILES = sorted(path.relative_to(ROOT) for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))

# package -> the only files of ours that may import it
AT_HOME = {
    "pygame": {path.as_posix() for path in FILES if path.match("arena/render/window*.py")},
    "pettingzoo": {"arena/environment.py"},
    "gymnasium": {"arena/environment.py", "marl/envs/team_vector_env.py"},
    "stable_baselines3": {"marl/envs/team_sb3_env.py"},
    "torchrl": {"marl/envs/team_torchrl_env.py"},
    "tensordict": {"marl/envs/team_torchrl_env.py"},
    "jax": set(),
    "triton": set(),
    "torch.distributed": {path.as_posix() for path in FILES if path.parts[:2] == ("marl", "ranks")},
    "pynvml": {"marl/metrics/run_metrics.py"},
    "tensorboard": {"marl/metrics/event_file.py", "marl/metrics/run_texts.py"},
    "torch.utils.tensorboard": set(),
    "wandb": {"marl/metrics/wandb_run.py"},
    "optuna": {"marl/commands/sweep.py"},
    "pandas": {"marl/train_api.py"},
}


# Packages and modules, low to high; those of one line do not import each other. No import runs back up.
ORDER = (
    ("arena.errors", "arena.system", "arena.files", "arena.extras", "arena.callees"),
    ("arena.jit",),
    ("arena.rng",),
    ("arena.rules",),
    ("arena.bitboard", "arena.dangers"),
    ("arena.search",),
    ("arena.encoders",),
    ("arena.backends",),
    ("arena",),  # batches, PettingZoo, replays
    ("opponents",),
    ("marl.errors", "marl.registry", "marl.rewards", "marl.compute.machine"),
    ("marl.plugins", "marl.compute.choice_cache"),
    ("marl.cli",),
    ("marl.config",),
    ("marl.compute",),
    ("marl.networks",),
    ("marl.fast.blas", "marl.fast.policy_kernels"),  # of dense networks, whoever asks them
    ("marl.fast.dense_kernels",),
    ("marl.fast.dense_pass",),
    ("marl.ranks",),
    ("marl.rollout",),
    ("marl.storage", "marl.learners", "marl.pictures"),
    ("marl.fast",),  # of learners, which know nothing of it
    ("marl.planning", "marl.metrics", "marl.envs"),
    ("marl.training",),
    ("marl.analysis", "marl.export"),
    ("marl.bench",),
    ("marl.doctor", "marl.commands"),
    ("marl", "marl.cli.main"),
)
LINES_MAX = 400


class Names(NamedTuple):
    """The imports of a file, and every name that it defines or imports, anywhere."""

    imports: list[ast.Import | ast.ImportFrom]
    defined: set[str]


@cache
def names_in(path: Path) -> Names:
    found = Names([], set())
    for node in ast.walk(ast.parse((ROOT / path).read_text(), str(path))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.defined.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.imports.append(node)
            found.defined.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return found


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that a file names in an import anywhere, `from x import y` as x and x.y."""
    found = set()
    for node in names_in(path).imports:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            base = node.module or ""
            if node.level:
                package = path.parent.parts[: len(path.parent.parts) - node.level + 1]
                base = ".".join((*package, *filter(None, [node.module])))
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return frozenset(found)


def test_every_import_of_ours_finds_its_file_and_its_names() -> None:
    """Also one inside a function, which may be called on other machines only."""
    files = {module_of(file): file for file in FILES}
    missing = set()
    for path in FILES:
        for node in names_in(path).imports:
            if isinstance(node, ast.Import):
                asked = {alias.name for alias in node.names if alias.name.split(".")[0] in LAYERS} - files.keys()
                missing |= {(str(path), name) for name in asked}
            elif not node.level and (node.module or "").split(".")[0] in LAYERS:
                known = names_in(files[node.module]).defined if node.module in files else set()
                asked = {alias.name for alias in node.names if f"{node.module}.{alias.name}" not in files}
                missing |= {(str(path), f"{node.module}.{name}") for name in asked - known}
    assert missing == set()


def names(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def importers(package: str, files: list[Path]) -> set[str]:
    return {path.as_posix() for path in files if any(names(module, package) for module in imports(path))}


def files_of(layer: str) -> list[Path]:
    return [path for path in FILES if path.parts[0] == layer]


@pytest.mark.parametrize(
    ("layer", "above"), [("arena", "opponents"), ("arena", "marl"), ("opponents", "marl")], ids="-".join
)
def test_a_lower_layer_imports_nothing_of_a_higher_one(layer, above) -> None:
    assert importers(above, files_of(layer)) == set()


@pytest.mark.parametrize("package", AT_HOME)
def test_an_outside_package_is_imported_in_its_one_place_only(package) -> None:
    assert importers(package, FILES) <= AT_HOME[package]


def level(module: str) -> int:
    """The place in ORDER of the longest entry that the module belongs to."""
    places = {package: place for place, line in enumerate(ORDER) for package in line}
    parts = module.split(".")
    return next(places[prefix] for end in range(len(parts), 0, -1) if (prefix := ".".join(parts[:end])) in places)


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_empty(path: Path) -> bool:
    """Whether a package holds nothing itself: to import a module of it is not to import it."""
    return path.name == "__init__.py" and len(ast.parse((ROOT / path).read_text()).body) == 1


MODULES = {module_of(file) for file in FILES if not is_empty(file)}


def ours(path: Path) -> set[str]:
    """Our modules that a file imports; `from package import name` counts as package.name if that is a module."""
    return {module for module in imports(path) if module in MODULES}


def test_no_import_runs_back_up() -> None:
    # render/ shows what the other parts of arena/ play, and the environment renders itself: both are "arena".
    above = {
        (path.as_posix(), module)
        for path in FILES
        for module in ours(path)
        if level(module) > level(module_of(path)) and module.count(".") > 0
    }
    assert above == set()


def test_no_circle_of_files() -> None:
    """Each file can be read after all that it imports."""
    waiting = {module_of(path): ours(path) - {module_of(path)} for path in FILES}
    packages = {module_of(path) for path in FILES if path.name == "__init__.py"}
    waiting = {module: needs - packages for module, needs in waiting.items()}
    while ready := [module for module, needs in waiting.items() if not needs & waiting.keys()]:
        for module in ready:
            del waiting[module]
    assert waiting == {}


def test_no_file_is_too_long() -> None:
    lengths = {path.as_posix(): len((ROOT / path).read_text().splitlines()) for path in FILES}
    assert {name: lines for name, lines in lengths.items() if lines > LINES_MAX} == {}


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=str)
def test_every_package_says_what_belongs_there(path) -> None:
    assert len(ast.get_docstring(ast.parse((ROOT / path).read_text())) or "") > 60


def test_the_root_of_marl_holds_only_what_has_no_other_place() -> None:
    found = {path.stem for path in FILES if path.parent == Path("marl")}
    assert found == {"__init__", "__main__", "api", "errors", "plugins", "registry", "rewards", "train_api"}


def test_no_file_is_named_utils() -> None:
    assert [path.as_posix() for path in FILES if path.stem == "utils"] == []


def test_there_are_files_to_look_at() -> None:
    assert Path("arena/rules.py") in FILES


@pytest.fixture(scope="module")
def loaded_by_arena() -> set[str]:
    """Modules in memory after `import arena` in a fresh process."""
    return set(in_fresh_process("import sys, arena; print(*sys.modules)").split())


@pytest.mark.parametrize("package", ["pettingzoo", "gymnasium", "pygame", "opponents", "marl", "arena.backends.cuda"])
def test_importing_the_arena_does_not_load(package, loaded_by_arena) -> None:
    assert package not in loaded_by_arena

"""Where compiled code is kept: an edit compiles again what depends on the edited file, and nothing else."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arena import callees, jit

# A project of three layers, and one file on its own. Imports stand in every form that the code uses.
FILES = {
    "arena/__init__.py": "",
    "arena/rules.py": "ROWS = 10\n",
    "arena/encoders/__init__.py": "",
    "arena/encoders/planes.py": "from arena.rules import (\n    ROWS,  # of the board\n)\nSIZE = 2 * ROWS\n",
    "arena/batch.py": "from arena.encoders import planes as p\nWIDTH = p.SIZE\n",
    "opponents/late.py": "import math\ndef rows():\n    import arena.rules as rules\n    return rules.ROWS\n",
    "marl/alone.py": "from os import path\nimport numpy as arena\n",
}
DEPENDENT = ("arena/rules.py", "arena/encoders/planes.py", "arena/batch.py", "opponents/late.py")
CACHED = (jit._file_of, jit._imported, jit._digest_of, jit._digest, jit.cache_folder, jit._folder_of)


def forget() -> None:
    """As in a new process."""
    for function in CACHED:
        function.cache_clear()


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The project's files in a folder of their own."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(jit, "ROOT", tmp_path)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    forget()
    yield tmp_path
    forget()


def copy_compiler(root: Path) -> None:
    """The files that compile, in a package `arena` of their own."""
    (root / "arena").mkdir()
    (root / "arena/__init__.py").touch()
    for file in (jit.__file__, callees.__file__):
        shutil.copy(file, root / "arena")


# Runs code in new processes, each forked from this one: loading Numba and its first compile take longer than all the
# rest. Reads lines of [folder, code, environment], answers lines of [exit code, stdout, stderr].
FORKER = """
import json, os, signal, sys, tempfile, traceback
import numba
numba.njit(lambda number: number / 2)(1)
# Python takes bytecode for current if the source has its second and its size: edits of a test may be faster than that.
sys.dont_write_bytecode = True
for line in sys.stdin:
    folder, code, environment = json.loads(line)
    outputs = [tempfile.TemporaryFile("w+") for _ in range(2)]
    child = os.fork()
    if child == 0:
        signal.alarm(300)  # ends one that hangs
        failed = 1
        try:
            for stream, output in zip((sys.stdout, sys.stderr), outputs):
                os.dup2(output.fileno(), stream.fileno())
            os.chdir(folder)
            os.environ.update(environment)
            sys.path.insert(0, folder)
            exec(code, {})
            failed = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(failed)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for output in outputs:
        output.seek(0)
    print(json.dumps([status, *(output.read() for output in outputs)]), flush=True)
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run_in() -> Iterator[Run]:
    """run_in(folder, code, **environment): in a new process that finds the packages of the folder first."""
    settings = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "PYTHONPATH")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", FORKER], env=settings, cwd="/", **pipes) as forker:

        def run(folder: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
            forker.stdin.write(json.dumps([str(folder), code, environment]) + "\n")
            forker.stdin.flush()
            return subprocess.CompletedProcess(code, *json.loads(forker.stdout.readline()))

        yield run
        forker.stdin.close()


def folders(root: Path) -> dict[str, str]:
    """The cache folder of every file."""
    forget()
    return {name: jit._folder_of((root / name,)) for name in FILES if not name.endswith("__init__.py")}


def changed(root: Path, edit: Callable[[], object]) -> set[str]:
    """Files whose folder is another one after the edit."""
    before = folders(root)
    edit()
    after = folders(root)
    return {name for name in before if before[name] != after[name]}


def test_a_constant_changes_the_folders_of_all_that_import_it_and_of_no_other(root) -> None:
    assert changed(root, lambda: (root / "arena/rules.py").write_text("ROWS = 11\n")) == set(DEPENDENT)


def test_a_file_in_between_changes_those_above_it_only(root) -> None:
    planes = root / "arena/encoders/planes.py"
    found = changed(root, lambda: planes.write_text(planes.read_text() + "# edited\n"))
    assert found == {"arena/encoders/planes.py", "arena/batch.py"}


def test_a_file_that_nobody_imports_changes_itself_only(root) -> None:
    assert changed(root, lambda: (root / "marl/alone.py").write_text("X = 1\n")) == {"marl/alone.py"}


def test_an_added_import_counts_from_then_on(root) -> None:
    alone, rules = root / "marl/alone.py", root / "arena/rules.py"
    alone.write_text("from arena import rules\n")
    assert changed(root, lambda: rules.write_text("ROWS = 12\n")) == {*DEPENDENT, "marl/alone.py"}


def test_without_an_edit_nothing_changes(root) -> None:
    assert changed(root, lambda: (root / "arena/rules.py").write_text(FILES["arena/rules.py"])) == set()


def test_imported_files_are_ours_in_every_form_of_an_import(root) -> None:
    def imported(name: str) -> set[str]:
        return {path.relative_to(root).as_posix() for path in jit._imported(root / name)}

    assert imported("arena/rules.py") == set()
    assert imported("arena/encoders/planes.py") == {"arena/rules.py"}
    assert imported("arena/batch.py") == {"arena/encoders/planes.py"}
    assert imported("opponents/late.py") == {"arena/rules.py"}
    assert imported("marl/alone.py") == set(), "packages of others, even under one of our names"


def test_a_package_counts_where_a_name_is_taken_from_its_own_file(root) -> None:
    package, batch = root / "arena/encoders/__init__.py", root / "arena/batch.py"
    edit = "import math  # the whole program, say\nSIZE = 3\n"
    assert changed(root, lambda: package.write_text(edit)) == set(), "batch.py takes a module of the package"
    for line in ("from arena.encoders import planes, SIZE", "from arena.encoders import *", "import arena.encoders"):
        package.write_text("")
        batch.write_text(line + "\n")
        assert changed(root, lambda: package.write_text(edit)) == {"arena/batch.py"}, line


def test_a_generated_loop_also_depends_on_the_file_of_its_function(root) -> None:
    template, function = root / "marl/alone.py", root / "arena/rules.py"
    before = jit._folder_of((template, function))
    assert Path(before).name.startswith("numba-alone+rules-")
    function.write_text("ROWS = 11\n")
    forget()
    assert jit._folder_of((template, function)) != before


def test_the_folder_of_the_text_before_is_removed_and_others_stay(root) -> None:
    before = folders(root)
    for folder in before.values():
        Path(folder).mkdir(parents=True)
    (root / "arena/rules.py").write_text("ROWS = 11\n")
    folders(root)
    assert {name for name, folder in before.items() if not Path(folder).exists()} == set(DEPENDENT)


def test_a_folder_that_the_user_chose_is_used_and_nothing_in_it_is_removed(root, monkeypatch, tmp_path) -> None:
    """It may serve several versions of the sources."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    before = folders(root)
    for folder in before.values():
        assert Path(folder).parent == tmp_path / "chosen"
        Path(folder).mkdir(parents=True)
    (root / "arena/rules.py").write_text("ROWS = 11\n")
    assert folders(root) != before
    assert all(Path(folder).exists() for folder in before.values())


def test_compiled_code_follows_a_constant_and_a_function_of_another_file(tmp_path, run_in) -> None:
    """Real compiled code, each time in a new process: with Numba's own cache the second would print 20 again."""
    copy_compiler(tmp_path)
    (tmp_path / "arena/loop.py").write_text(
        "from arena.jit import njit\nfrom arena.rules import ROWS, times\n\n\n"
        "@njit\ndef rows():\n    return times(ROWS)\n"
    )
    found = []
    for rows, factor in ((10, 2), (11, 2), (11, 3), (11, 3)):
        (tmp_path / "arena/rules.py").write_text(
            f"from arena.jit import njit\nROWS = {rows}\n\n\n@njit\ndef times(x):\n    return {factor} * x\n"
        )
        code = "from arena.loop import rows; print(rows(), sum(rows.stats.cache_hits.values()))"
        done = run_in(tmp_path, code)
        assert done.returncode == 0, done.stderr
        found.append(tuple(map(int, done.stdout.split())))
    assert found == [(20, 0), (22, 0), (33, 0), (33, 1)], "value, and whether it was loaded from the cache"


def test_compiling_is_announced_and_loading_is_not(tmp_path, run_in) -> None:
    """Each time in a new process; the second call is slow, and yet it loads only."""
    copy_compiler(tmp_path)
    (tmp_path / "arena/loop.py").write_text(
        "from arena.jit import njit\n\n\n@njit\ndef one():\n    return 1\n\n\n@njit\ndef two():\n    return one() + 1\n"
    )
    code = (
        "import time; from arena.jit import announced; from arena.loop import two\n"
        "with announced('all'), announced('two'):\n    two(); time.sleep(2.2)\n"
        "with announced('two again'):\n    two()"
    )
    for rank, lines in (("0", 1), ("0", 0), ("1", 0)):
        if rank == "1":
            shutil.rmtree(tmp_path / "arena/__pycache__")  # it compiles, but is not the first rank of its node
        done = run_in(tmp_path, code, LOCAL_RANK=rank)
        assert (done.returncode, done.stderr.count("snakes: compiling two (once; kept in ")) == (0, lines), done.stderr
        assert done.stderr.count("\n") == lines


def test_a_line_is_printed_once_for_several_kinds_of_arguments(tmp_path, run_in) -> None:
    copy_compiler(tmp_path)
    (tmp_path / "arena/loop.py").write_text(
        "from arena.jit import njit\n\n\n@njit\ndef double(number):\n    return number + number\n"
    )
    code = (
        "from arena.jit import announced; from arena.loop import double\n"
        "for number in (1, 1.0):\n    with announced('doubles'):\n        double(number)\n"
        "print(len(double.signatures))"
    )
    done = run_in(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert done.stderr.count("compiling doubles (once") == 1


def test_the_share_of_a_long_compile_is_told(tmp_path, run_in) -> None:
    """Every function that becomes part of the called one, by its name or as a name in a module."""
    copy_compiler(tmp_path)
    (tmp_path / "arena/one.py").write_text("from arena.jit import njit\n\n\n@njit\ndef one():\n    return 1\n")
    (tmp_path / "arena/loop.py").write_text(
        "from arena import one\nfrom arena.jit import njit\n\n\n@njit\ndef two():\n    return one.one() + 1\n\n\n"
        "@njit\ndef four():\n    return two() + two()\n"
    )
    code = (
        "from arena import jit; from arena.loop import four\njit.SHOW_SHARE_AFTER = {}\n"
        "with jit.announced('four', print):\n    print(four())"
    )
    shares = ["compiling four (once): 40%", "compiling four (once): 80%"]
    for after, expected in ((0, ["compiling four (once)", *shares, "4"]), (0, ["4"])):
        done = run_in(tmp_path, code.format(after))
        assert done.stdout.splitlines() == expected, done.stderr


def test_two_processes_that_compile_a_function_for_different_types_do_not_take_each_others_code(
    tmp_path, run_in
) -> None:
    copy_compiler(tmp_path)
    (tmp_path / "arena/loop.py").write_text("from arena.jit import njit\n\n\n@njit\ndef half(x):\n    return x / 2\n")
    # Both find an empty index, as if neither had written yet.
    compile = "from unittest import mock; from arena.loop import half; f = half._cache._cache_file\n"
    compile += "with mock.patch.object(f, '_load_index', dict):\n    half({})"
    load = "from arena.loop import half; print(half(3), half(3.5), [str(s) for s in half.signatures])"
    for code in (compile.format("3"), compile.format("3.5"), load):
        done = run_in(tmp_path, code)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "1.5 1.75 ['(int64,)', '(float64,)']\n"
    assert len(list(tmp_path.rglob("*.nbc"))) == 2


def test_types_of_a_module_that_is_gone_do_not_matter(tmp_path, run_in) -> None:
    """As after an update: the compiled function is as it was, a type of its arguments has moved."""
    copy_compiler(tmp_path)
    (tmp_path / "arena/loop.py").write_text("from arena.jit import njit\n\n\n@njit\ndef half(x):\n    return x.a / 2\n")
    code = "from arena.loop import half; from arena.{} import Row\n"
    code += "print(half(Row(3)), sum(half.stats.cache_hits.values()))"
    found = []
    for name in ("first", "second", "second"):
        (tmp_path / "arena/first.py").unlink(missing_ok=True)
        (tmp_path / f"arena/{name}.py").write_text(
            "from typing import NamedTuple\n\n\nclass Row(NamedTuple):\n    a: int\n"
        )
        done = run_in(tmp_path, code.format(name))
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert found == [["1.5", "0"], ["1.5", "0"], ["1.5", "1"]], "value, and whether it was loaded from the cache"

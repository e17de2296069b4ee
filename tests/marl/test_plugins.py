"""Own code from outside: files and modules by --import, YAML, Python and entry points, and what a run remembers."""

import json
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from helpers.command import ROOT, assert_one_line
from helpers.training import TINY_ANY, alone

import marl
from arena import ArenaError
from arena.encoders import ENCODERS
from marl import plugins, registry
from marl.config.train_config import read_config
from marl.errors import UserError
from marl.rewards import PRESETS, RewardWeights
from marl.storage import run_imports
from opponents.scheduler import BY_PROGRESS, ScheduleConfig, Scheduler
from opponents.scripted import SCRIPTED

TABLES = (registry.LEARNERS, registry.NETWORKS, registry.SECTIONS, ENCODERS, PRESETS, SCRIPTED, BY_PROGRESS)
REWARD = "from marl.rewards import PRESETS, RewardWeights\nPRESETS[{name!r}] = RewardWeights(die=2.0)\n"


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch) -> Iterator[None]:
    """Tables, modules, path and the user's notes as before; this user has imported nothing yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(plugins, "_plugins", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    tables, modules = [dict(table) for table in TABLES], set(sys.modules)
    yield
    for table, before in zip(TABLES, tables, strict=True):
        table.clear()
        table.update(before)
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def own(tmp_path) -> Path:
    """A folder with a blank, a quote and Chinese in its name."""
    folder = tmp_path / "own code's 代码"
    folder.mkdir()
    return folder


def forget(*names: str) -> None:
    """As a new process begins: nothing is imported."""
    plugins._plugins.clear()
    for name in names:
        sys.modules.pop(name, None)
        PRESETS.pop(name, None)


def reward_file(folder: Path, name: str) -> Path:
    file = folder / f"{name}.py"
    file.write_text(REWARD.format(name=name))
    return file


def make_run(folder: Path, *records: plugins.Plugin) -> Path:
    """A run folder as far as its imports go."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"imports": [record._asdict() for record in records]}))
    return folder


# --- the files of docs/extend.md --------------------------------------------------------------------------------------


def test_the_files_of_the_documentation(own, tmp_path) -> None:
    """Each in under 25 lines: train with all of them; resume, evaluate and report without naming them; and what is
    asked for when one is gone."""
    page = (ROOT / "docs" / "extend.md").read_text()
    files = re.findall(r"`(my_\w+\.py)`:\n\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    kinds = ("reward", "opponent", "encoder", "schedule", "network", "learner")
    assert [name for name, _ in files] == [f"my_{kind}.py" for kind in kinds]
    words = []
    for name, text in files:
        assert len(text.splitlines()) < 25
        (own / name).write_text(text)
        words += ["--import", own / name]
    words += ["--preset", "survivor", "--encoder", "lengths", "--opponents", "circling:0.5"]
    words += ["--algo", "ppo_plain", "--kind", "gelu", "--strategy", "late"]
    words += ["--eval_opponents", "circling", "--runs_dir", tmp_path, "--run_name", "own", "--max_episodes", "8"]
    done = alone(*TINY_ANY, *words, "--update_interval", "480", "--batch_size", "240")
    assert done.returncode == 0, done.stderr
    assert re.search(r"network +lengths -> gelu \(GeluStem\) \d+", done.stdout)
    run = tmp_path / "snakes_3v3" / "own"
    about = json.loads((run / "run.json").read_text())["imports"]
    assert [(each["name"], each["file"]) for each in about] == [(n.removesuffix(".py"), str(own / n)) for n, _ in files]
    resumed = alone("train", "--resume", run, "--max_episodes", "16")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads((run / "run.json").read_text())["imports"] == about
    measured = alone("eval", "--home", run, "--away", "circling", "--matches", "2", "--device", "cpu")
    assert measured.returncode == 0, measured.stderr
    reported = alone("report", run)
    assert reported.returncode == 0, reported.stderr
    assert "circling" in reported.stdout
    (own / "my_reward.py").unlink()
    (own / "my_opponent.py").unlink()
    team = alone("eval", "--home", run, "--away", "level0", "--matches", "2", "--device", "cpu")
    assert team.returncode == 0, f"it plays without its reward: {team.stderr}"
    asked = alone("train", "--resume", run, "--max_episodes", "24")
    assert_one_line(asked, f"{run} was trained with {own / 'my_reward.py'}, which is gone; give it with --import")
    (own / "my_encoder.py").write_text(dict(files)["my_encoder.py"] + "# changed\n")
    asked = alone("eval", "--home", run, "--away", "level0", "--matches", "2")
    assert_one_line(asked, "--import FILE")
    given = alone("eval", "--home", run, "--away", "level0", "--matches", "2", "--import", own / "my_encoder.py")
    assert given.returncode == 0, given.stderr


# --- how it is said ---------------------------------------------------------------------------------------------------


def test_files_modules_and_yaml(own, monkeypatch) -> None:
    monkeypatch.chdir(own)
    for name in ("by_flag", "by_module", "by_yaml"):
        reward_file(own, name)
    (own / "config.yaml").write_text("import: by_yaml.py\npreset: by_yaml\n")
    config = read_config(["--import", "by_flag.py", "--import=by_module", "--config", "config.yaml"])
    assert config.reward.preset == "by_yaml"
    assert [plugin.name for plugin in plugins.imported()] == ["by_flag", "by_module", "by_yaml"]
    assert read_config(["--preset", "by_module"]).reward.weights()[4] == 2.0
    read_config(["--import", str(own / "by_flag.py")])
    assert len(plugins.imported()) == 3, "each once"
    assert plugins.as_yaml().startswith("import:\n- ")
    (own / "again.yaml").write_text(plugins.as_yaml())
    forget("by_flag", "by_module", "by_yaml")
    read_config(["--config", "again.yaml"])
    assert len(plugins.imported()) == 3, "the printed line imports the same"


def test_a_package_and_files_beside_a_file(own, monkeypatch) -> None:
    package = own / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("from own_package import inner\n")
    reward_file(package, "inner")
    reward_file(own, "beside")
    (own / "outer.py").write_text("import beside\n")
    monkeypatch.chdir(own)
    plugins.import_plugins(["own_package", "outer.py"])
    assert {"inner", "beside"} <= PRESETS.keys()
    records = plugins.imported()
    assert [record.request for record in records] == ["own_package", str(own / "outer.py")]
    run = make_run(own / "runs" / "a", *records)
    forget("own_package", "own_package.inner", "outer", "beside")
    monkeypatch.chdir("/")
    sys.path[:] = [each for each in sys.path if each != str(own)]
    assert run_imports.import_of_run(run) == ""
    assert plugins.imported() == records


def test_what_stands_beside_a_file_or_in_the_folder_hides_no_other_module(own, monkeypatch) -> None:
    (own / "colorsys.py").write_text("raise RuntimeError('not the one of Python')\n")
    (own / "by_file.py").write_text("import colorsys\nNAME = colorsys.rgb_to_hsv.__name__\n")
    (own / "by_name.py").write_text("import colorsys\nNAME = colorsys.rgb_to_hsv.__name__\n")
    monkeypatch.chdir(own)
    for name in ("by_file.py", "by_name"):
        monkeypatch.delitem(sys.modules, "colorsys", raising=False)
        plugins.import_plugins([name])
        assert sys.modules[name.removesuffix(".py")].NAME == "rgb_to_hsv"


def test_an_installed_package_is_found_by_its_entry_point(own, monkeypatch) -> None:
    reward_file(own, "installed")
    monkeypatch.syspath_prepend(own)
    point = metadata.EntryPoint("mine", "installed", plugins.GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == plugins.GROUP else [])
    monkeypatch.setattr(plugins, "_is_searched", False)
    assert plugins.has_entry_points()
    plugins.import_entry_points()
    assert "installed" in PRESETS
    assert not plugins.has_entry_points()


def test_from_python(own, tmp_path) -> None:
    file = reward_file(own, "from_python")
    config = marl.train("smoke", imports=file, preset="from_python", dry_run=True, quiet=True, runs_dir=tmp_path / "r")
    assert config["reward"]["preset"] == "from_python"


def test_a_schedule(own) -> None:
    (own / "late.py").write_text(
        "from opponents.scheduler import BY_PROGRESS\n"
        'BY_PROGRESS["late"] = lambda episode, end: 4 * episode**3 // end**3\n'
        'BY_PROGRESS["too_high"] = lambda episode, end: 7\n'
    )
    config = read_config(["--import", str(own / "late.py"), "--strategy", "late", "--max_episodes", "10"])
    schedule = Scheduler(config.schedule)
    assert [schedule.level(episode) for episode in (0, 6, 7, 10)] == ["level0", "level0", "level1", "level4"]
    assert schedule.reachable()[-1] == "level4"
    for rung in (7, 1.0):
        BY_PROGRESS["too_high"] = lambda episode, end, rung=rung: rung
        with pytest.raises(ArenaError, match=rf"strategy too_high gave rung {rung}; allowed: 0 to 4"):
            Scheduler(ScheduleConfig("too_high")).mix(0)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (
            'from opponents.scripted import SCRIPTED\nSCRIPTED["mine"] = lambda *_: 0\n',
            "put @njit of arena.jit before it",
        ),
        ('from marl.rewards import PRESETS\nPRESETS["mine"] = (1.0,)\n', "preset mine is (1.0,); allowed: "),
    ],
)
def test_an_entry_that_could_not_run_is_told_at_once(text, part, own) -> None:
    (own / "mine.py").write_text(text)
    with pytest.raises(UserError, match=re.escape(part)):
        plugins.import_plugins([own / "mine.py"])


def test_a_learner_without_options_is_told_what_it_lacks(own) -> None:
    (own / "mine.py").write_text('from marl.registry import LEARNERS\nLEARNERS["mine"] = object\n')
    with pytest.raises(UserError, match=r"algo mine has no section of options.*SECTIONS\[\"mine\"\]"):
        read_config(["--import", str(own / "mine.py"), "--algo", "mine"])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x = (\n", "SyntaxError: '(' was never closed (wrong.py, line 1)"),
        ("import json\nundefined\n", "wrong.py, line 2: NameError: name 'undefined' is not defined"),
        ("import no_such_package\n", "wrong.py, line 1: ModuleNotFoundError: No module named 'no_such_package'"),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(text, part, own) -> None:
    file = own / "wrong.py"
    file.write_text(text)
    with pytest.raises(UserError) as error:
        plugins.import_plugins([file])
    assert str(error.value).startswith(f"--import {file}: ")
    assert part in str(error.value)
    assert "\n" not in str(error.value)
    assert "wrong" not in sys.modules
    assert plugins.imported() == ()


def test_what_cannot_be_imported(own, monkeypatch) -> None:
    monkeypatch.chdir(own)
    (own / "json.py").write_text("")
    (own / "bad.yaml").write_text("import: 3\n")
    for words, part in (
        (["--import", "nowhere.py"], "--import nowhere.py: there is no such Python file"),
        (["--import", "nowhere.inner"], "--import nowhere.inner: there is no such module"),
        (["--import", str(own)], "there is no such Python file"),
        (["--import", str(own / "json.py")], "there is a module json already; rename the file"),
        (["--import"], "--import needs a module or a .py file"),
        (["--import", "--algo", "ppo"], "--import needs a module or a .py file"),
        (["--config", "bad.yaml"], "bad.yaml: import is 3; allowed: a module or a .py file, or a list of them"),
    ):
        with pytest.raises(UserError) as error:
            read_config(words)
        assert part in str(error.value)


# --- what a run remembers, and what a stranger's run may not do -------------------------------------------------------


def test_a_run_imports_what_its_user_has_imported_before(own) -> None:
    file = reward_file(own, "mine")
    plugins.import_plugins([file])
    run = make_run(own / "runs" / "a", *plugins.imported())
    forget("mine")
    assert run_imports.import_of_run(run) == ""
    assert PRESETS["mine"] == RewardWeights(die=2.0)


@pytest.mark.parametrize("case", ["changed", "gone", "unknown", "inside", "another place", "relative"])
def test_any_other_file_is_asked_for_and_not_run(case, own) -> None:
    run = own / "runs" / "a"
    file = reward_file(own, "theirs")
    if case == "inside":
        run.mkdir(parents=True)
        file = file.rename(run / "theirs.py")
    plugins.import_plugins([file])
    (record,) = plugins.imported()
    forget("theirs")
    if case == "changed":
        file.write_text(file.read_text() + "\n")
    elif case == "gone":
        file.unlink()
    elif case == "unknown":
        (Path(plugins._known_file())).unlink()
    elif case == "another place":
        record = record._replace(file=str(file.rename(own / "moved.py")), name="moved")
    elif case == "relative":
        record = record._replace(file="theirs.py")
    if case == "inside":
        (run / "run.json").write_text(json.dumps({"imports": [record._asdict()]}))
    else:
        make_run(run, record)
    told = run_imports.import_of_run(run)
    said = {"changed": "has changed since", "gone": "is gone", "unknown": "not imported here before"}
    said |= {"another place": "not imported here before", "inside": "own folder", "relative": "own folder"}
    assert said[case] in told
    assert "--import FILE" in told
    assert "\n" not in told
    assert "theirs" not in PRESETS
    assert plugins.imported() == ()
    with pytest.raises(UserError, match=re.escape(told)):
        run_imports.require_imports(run)
    if case in ("changed", "another place"):
        plugins.import_plugins([own / Path(record.file).name])
        assert run_imports.import_of_run(run) == "", "the user has said so"


@pytest.mark.parametrize(
    "imports", ["x", 3, None, [3], [{"name": "x"}], [{"name": 1, "file": "/x", "sha256": "y"}], {"name": "x"}]
)
def test_a_damaged_record_imports_nothing(imports, tmp_path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"imports": imports}))
    assert run_imports.import_of_run(run) == ""
    assert run_imports.import_of_run(None) == ""


def test_the_configuration_of_a_run_imports_nothing(own) -> None:
    reward_file(own, "sneaky")
    saved = own / "config.yaml"
    saved.write_text(f"import: {own / 'sneaky.py'}\n")
    with pytest.raises(UserError, match="unknown key import"):
        read_config([], saved)
    assert "sneaky" not in PRESETS

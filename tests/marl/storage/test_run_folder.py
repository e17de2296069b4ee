"""Run folders: their numbers, what is found, what they say of themselves."""

import errno
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from marl.errors import UserError
from marl.storage import run_folder
from marl.storage.run_folder import read_regular, read_with_time

ROOT = Path(__file__).resolve().parents[3]


def one_line(error: pytest.ExceptionInfo, *parts: str) -> None:
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_numbers_go_up_and_gaps_stay(tmp_path):
    first = run_folder.create(tmp_path)
    assert re.fullmatch(r"run1_\d{8}_\d{6}", first.name)
    assert first.parent == tmp_path / "snakes_3v3"
    (first.parent / "run7_20200101_000000").mkdir()
    assert run_folder.create(tmp_path).name.startswith("run8_")
    assert sorted(folder.name[:5] for folder in first.parent.iterdir()) == ["run1_", "run7_", "run8_"]


def test_a_claim_left_by_a_killed_process_costs_a_number_only(tmp_path):
    run_folder.create(tmp_path)
    (tmp_path / "snakes_3v3" / ".run2").mkdir()
    assert run_folder.create(tmp_path).name.startswith("run3_")


def test_all_who_start_at_once_get_a_number_of_their_own(tmp_path):
    program = (
        "import sys; from marl.storage import run_folder\n"
        "for _ in range(20): print(run_folder.create(sys.argv[1]).name)"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    names = [name for child in children for name in child.communicate(timeout=300)[0].split()]
    numbers = [name.partition("_")[0] for name in names]
    assert len(numbers) == 80
    assert len(set(numbers)) == 80
    assert sorted(os.listdir(tmp_path / "snakes_3v3")) == sorted(names)


def test_a_number_taken_between_looking_and_claiming_is_not_given_again(tmp_path, monkeypatch):
    group = tmp_path / "snakes_3v3"
    run_folder.create(tmp_path)
    mkdir = Path.mkdir

    def late(self, *args, **kwargs):
        if self.name == ".run2":
            mkdir(group / "run2_20200101_000000", exist_ok=True)  # another process, one second ago
        mkdir(self, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", late)
    assert run_folder.create(tmp_path).name.startswith("run3_")
    assert not any(name.startswith(".") for name in os.listdir(group))


def test_a_named_run_is_made_once(tmp_path):
    folder = run_folder.create(tmp_path, "蛇-final.v2")
    assert folder == tmp_path / "snakes_3v3" / "蛇-final.v2"
    assert folder.is_dir()
    with pytest.raises(UserError) as error:
        run_folder.create(tmp_path, "蛇-final.v2")
    one_line(error, str(folder), "--resume", "--run_name")


def test_of_many_with_one_name_one_gets_it(tmp_path):
    made, refused = [], []

    def start():
        try:
            made.append(run_folder.create(tmp_path, "same"))
        except UserError as error:
            refused.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 7)


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "/abs", "a\\b", "line\nbreak"])
def test_a_name_that_is_no_folder_name(tmp_path, name):
    for call in (run_folder.create, run_folder.newest):
        with pytest.raises(UserError) as error:
            call(tmp_path, name)
        one_line(error, "--run_name", repr(name))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [None, "mine"])
def test_a_file_in_the_way(tmp_path, name):
    (tmp_path / "runs").write_text("")
    for runs_dir in (tmp_path / "runs", tmp_path / "runs" / "deeper"):
        with pytest.raises(UserError) as error:
            run_folder.create(runs_dir, name)
        one_line(error, str(runs_dir), "--runs_dir")
    (tmp_path / "snakes_3v3").mkdir()
    (tmp_path / "snakes_3v3" / "mine").write_text("")
    with pytest.raises(UserError) as error:
        run_folder.create(tmp_path, "mine")
    one_line(error, str(tmp_path / "snakes_3v3" / "mine"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("name", [None, "mine"])
def test_no_room_or_no_right(tmp_path, monkeypatch, number, name):
    def refuse(path, *_args, **_kwargs):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)  # Python 3.10 calls os.mkdir as it was when pathlib was loaded
    with pytest.raises(UserError) as error:
        run_folder.create(tmp_path, name)
    one_line(error, str(tmp_path), os.strerror(number))


def test_finding_by_number(tmp_path):
    for name in ("run2_20250101_000000", "run10_20250101_000000", "run10_20250202_000000", "mine", "run3"):
        (tmp_path / "snakes_3v3" / name).mkdir(parents=True)
    assert run_folder.find_run(tmp_path, 2).name == "run2_20250101_000000"
    assert run_folder.find_run(tmp_path, 10).name == "run10_20250202_000000"
    with pytest.raises(UserError) as error:
        run_folder.find_run(tmp_path, 1)
    one_line(error, "run 1 ", str(tmp_path / "snakes_3v3"), "there: run2_20250101_000000, run10_20250101_000000")


def test_finding_where_nothing_is(tmp_path):
    with pytest.raises(UserError) as error:
        run_folder.find_run(tmp_path / "runs", 4)
    one_line(error, "run 4 ", str(tmp_path / "runs"), "nothing")
    assert run_folder.newest(tmp_path / "runs") is None
    (tmp_path / "runs").write_text("")
    with pytest.raises(UserError) as error:
        run_folder.find_run(tmp_path / "runs", 4)
    one_line(error, str(tmp_path / "runs"))


def test_the_newest_is_the_one_started_last(tmp_path):
    assert run_folder.newest(tmp_path) is None
    numbered, named = run_folder.create(tmp_path), run_folder.create(tmp_path, "mine")
    for folder, started in ((numbered, 200), (named, 100)):
        (folder / "run.json").write_text(json.dumps({"started_unix": started}))
    assert run_folder.newest(tmp_path) == numbered
    (named / "run.json").write_text(json.dumps({"started_unix": 300}))
    assert run_folder.newest(tmp_path) == named
    assert run_folder.newest(tmp_path, "mine") == named
    assert run_folder.newest(tmp_path, "other") is None


def test_the_newest_of_runs_that_say_nothing(tmp_path):
    folders = [run_folder.create(tmp_path) for _ in range(3)]
    for folder in folders:
        os.utime(folder, (1000, 1000))
    (folders[0] / "run.json").write_text("{half")
    os.utime(folders[0], (1000, 1000))
    assert run_folder.newest(tmp_path) == folders[-1]


def test_a_run_describes_itself(tmp_path):
    folder = run_folder.create(tmp_path)
    config = {"algo": "ddpg", "lr": 3e-5, "layers": [64, 64], "opponents": {"strategy": "curriculum"}, "name": None}
    run_folder.describe(folder, config, run_folder.about_start(["train", "--run_name", "two words"], ranks=2))
    assert yaml.safe_load((folder / "config.yaml").read_text()) == config
    assert list(yaml.safe_load((folder / "config.yaml").read_text())) == list(config)
    about = json.loads((folder / "run.json").read_text())
    assert about["command"] == "train --run_name 'two words'"
    assert about["world_size"] == 2
    assert about["versions"]["python"].startswith("3.")
    assert about["processor"]["cores"] >= 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", about["started"])
    assert sorted(os.listdir(folder)) == ["config.yaml", "run.json"]

    run_folder.describe(folder, config, run_folder.about_start(["train", "--resume", "auto"], ranks=1))
    run_folder.describe(folder, config, run_folder.about_start(["train", "--resume", "again"], ranks=1))
    again = json.loads((folder / "run.json").read_text())
    assert again["command"] == "train --resume again"
    assert [each["command"] for each in again["earlier"]] == [about["command"], "train --resume auto"]


def test_git_state_of_this_checkout():
    state = run_folder.git_state()
    if not (ROOT / ".git").exists():
        assert state is None
        return
    assert re.fullmatch(r"[0-9a-f]{40}", state["commit"])
    assert state["dirty"] in (True, False)


def test_only_changes_of_tracked_files_count(monkeypatch, tmp_path):
    source = tmp_path / "marl" / "storage" / "run_folder.py"
    source.parent.mkdir(parents=True)
    source.write_text("1")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(run_folder, "__file__", str(source))
    (tmp_path / "match.jsonl").write_text("a replay")
    assert run_folder.git_state()["dirty"] is False
    source.write_text("2")
    assert run_folder.git_state()["dirty"] is True


def test_what_the_documented_commands_write_is_ignored():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for name in ("match.jsonl", "match.html", "m.gif", "m.mp4", "m.png", "league.html", "my_team"):
        assert name in texts
        path = name if "." in name else f"{name}/submission.py"
        assert subprocess.run(["git", "-C", str(ROOT), "check-ignore", "-q", path]).returncode == 0, name


def test_without_git_there_is_no_state(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_folder.git_state() is None


def test_another_projects_git_is_not_ours(monkeypatch, tmp_path):
    package = tmp_path / "site-packages" / "marl" / "storage"
    package.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr(run_folder, "__file__", str(package / "run_folder.py"))
    assert run_folder.git_state() is None


def test_a_full_disk_leaves_the_old_description(tmp_path, monkeypatch):
    folder = run_folder.create(tmp_path)
    run_folder.describe(folder, {"a": 1}, run_folder.about_start(["train"], ranks=1))

    def full(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError) as error:
        run_folder.describe(folder, {"a": 2}, run_folder.about_start(["train"], ranks=1))
    one_line(error, str(folder), "No space left")
    assert yaml.safe_load((folder / "config.yaml").read_text()) == {"a": 1}
    assert sorted(os.listdir(folder)) == ["config.yaml", "run.json"]


def test_a_long_list_is_cut():
    names = [f"run{i}" for i in range(30)]
    assert run_folder.listing(names) == "18 more, " + ", ".join(names[18:])
    assert run_folder.listing([]) == "nothing"


def test_no_torch_is_loaded():
    program = "import sys, marl.storage.run_folder; sys.exit('torch' in sys.modules or 'arena' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=300).returncode == 0


def test_a_regular_file_is_read_also_through_a_link(tmp_path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"text")
    os.utime(file, (5, 5))
    (tmp_path / "b").symlink_to(file)
    assert read_regular(tmp_path / "b") == b"text"
    assert read_with_time(file) == (b"text", 5_000_000_000)


def test_nothing_else_is(tmp_path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, "/dev/zero", tmp_path / "missing"):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory|No such file"):
            read_regular(path)

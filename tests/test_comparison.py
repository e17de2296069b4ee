"""scripts/comparison.py: trains what is not done, packs what `report` reads, and writes the page, here or elsewhere."""

import sys
import tarfile
from pathlib import Path

import pytest
from helpers.fake_training import train_falsely, trained
from helpers.script import load_script
from helpers.training import here

GIVEN = ("--learners", "ppo", "--episodes", "300", "--seeds", "1-2", "--side-by-side", "2", "--runs-dir", "runs")
ON_GPU = ("--device", "cuda", "--minutes-each", "0.2", "--seeds", "1-2", "--runs-dir", "gpu_runs")
PAGE = """before
<!-- learners: begin -->
old
<!-- learners: end -->
between
<!-- learners_gpu: begin -->
<!-- learners_gpu: end -->
after
"""


@pytest.fixture
def comparison(tmp_path, monkeypatch):
    """The script, with a page and a training of its own; `report` runs in this process."""
    module = load_script("comparison")
    train_falsely(tmp_path, monkeypatch)
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "pictures").mkdir()
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(module, "call", lambda *words: here(*words).stdout)

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["comparison.py", *words])
        return module.main()

    return run


def test_results_travel_and_become_the_page(comparison) -> None:
    assert comparison(*GIVEN, "--out", "out") == 0
    assert sorted(trained()) == ["ppo_seed1", "ppo_seed2"]
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "comparison.png", "learners.md", "marl_eval.json", "runs.tar.gz",
    ]  # fmt: skip
    assert Path("page.md").read_text() == PAGE, "left alone"
    assert comparison("--page", "out") == 0
    page = Path("page.md").read_text()
    assert page.startswith("before\n")
    assert page.endswith(PAGE.partition("old\n")[2]), "the other section is left alone"
    assert "--seeds 1-2 --learners ppo --episodes 300`" in page
    assert "2 runs in 1 group; Abacus, 2 cores" in page, "the machine of the runs"
    assert "75.0 (75.0-75.0)" in page
    assert Path("pictures/comparison.png").is_file()
    with tarfile.open("out/runs.tar.gz") as archive:
        assert not [name for name in archive.getnames() if "weights" in name]
        archive.extractall("elsewhere", filter="data")
    assert here("report", "ppo", "--runs_dir", "elsewhere").stdout.strip() in page
    assert comparison(*GIVEN[:5], "1-3", *GIVEN[6:]) == 0
    assert trained() == ["ppo_seed3"], "the others are done"
    assert "3 runs in 1 group" in Path("page.md").read_text()


def test_learners_on_a_gpu_share_it_with_their_own_seeds(comparison, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["docs_section"], "place", lambda *_: None)
    monkeypatch.setattr(sys.modules["comparison"], "call", lambda *words: f"{' '.join(words)}\nmarl-eval's JSON: x")
    assert comparison(*ON_GPU, "--learners", "ppo,ddpg") == 0
    names = trained()
    assert [sorted(names[:2]), sorted(names[2:])] == [["ppo_seed1", "ppo_seed2"], ["ddpg_seed1", "ddpg_seed2"]]
    page = Path("page.md").read_text()
    assert page.startswith(PAGE.partition("<!-- learners_gpu: end")[0] + "## On one ")
    assert "--seeds 1-2 --device cuda --learners ppo,ddpg --minutes-each 0.2`: all runs on one GPU, 2 runs at" in page
    assert "trained for 12 s" in page
    assert "marl-eval" not in page
    assert "report ddpg ppo --runs-dir gpu_runs" in page
    assert "--png" not in page, "one evaluation is no curve"
    assert comparison(*ON_GPU, "--learners", "ppo,ddpg") == 0
    assert trained() == [], "all are done"


def test_a_folder_without_results_is_told_in_one_line(comparison, capsys) -> None:
    assert comparison("--page", "nowhere") == 2
    error = "comparison.py: nowhere has no results (learners.md or learners_gpu.md); make them by --out\n"
    assert capsys.readouterr().err == error


@pytest.mark.parametrize(
    "wrong", [("--devise", "cpu"), ("--minutes-each", "x"), ("--seeds", "x"), ("--learners", "pp")]
)
def test_mistakes_are_told_in_one_line(comparison, capsys, wrong) -> None:
    try:
        code = comparison(*wrong)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert trained() == []


def test_without_cross_play_the_section_says_so(comparison) -> None:
    assert comparison(*ON_GPU[2:], "--learners", "ppo,ddpg", "--no-cross-play") == 0
    page = Path("page.md").read_text()
    assert "--no-cross-play --minutes-each 0.2`: one thread per run" in page
    assert "ross-play of" not in page
    assert "Cross-play:" not in page

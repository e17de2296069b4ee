"""The command `report`: groups and their names, numbers, marl-eval's JSON, page, picture, and mistakes."""

import csv
import json
import math
import multiprocessing
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers import browser
from helpers.command import assert_one_line
from helpers.forking import forking_context
from helpers.training import TINY_ANY, here
from PIL import Image

from marl.analysis.comparison import collect
from marl.analysis.groups import group_names, group_runs
from marl.analysis.runs import find_runs
from marl.analysis.statistics import estimate_iqm, probability_of_improvement

ENDED = f"{os.uname().nodename} another-boot 1 1"
OPPONENTS = ["level0", "level2"]  # of the evaluations
EVIL = "<img src=x onerror=hacked=1>"
# Win rates against level2 in the last evaluation, by learner and seed.
LAST = {"ppo": {1: 0.8, 2: 0.9, 3: 0.7, 10: 0.2}, "ddpg": {1: 0.6, 2: 0.5, 3: 0.7, 10: 0.4}}


def make_run(runs_dir: Path, name: str, seed: int, last: float, limit: int = 300, **config: object) -> Path:
    """A finished run as training writes it: evaluations before the first update and every 100 episodes."""
    folder = runs_dir / "snakes_3v3" / name
    (folder / "checkpoints").mkdir(parents=True)
    sections = {"schedule": {"max_episodes": limit}, "ppo": {"lr": 0.003}, "ddpg": {"tau": 0.01}}
    about = {"algo": "ppo", "seed": seed, "run_name": name, "max_minutes": 0.0, "threads": seed, **sections}
    evaluation = {"eval_opponents": OPPONENTS, "eval_matches": 200}
    (folder / "config.yaml").write_text(yaml.safe_dump(about | {"evaluation": evaluation} | config))
    processor = {"model": "Abacus", "cores": 2}
    (folder / "run.json").write_text(json.dumps({"started_unix": seed, "process": ENDED, "processor": processor}))
    lines = []
    for i in range(4):
        rates = {"eval/win_rate_level0": 1.0, "eval/win_rate_level2": last * i / 3, "eval/points": 0.5}
        time = {"train/env_steps": 20_000.0 * i, "time/seconds": (6.0 + seed) * i}
        lines += [{"step": 100 * i, "time": 1.0, **rates}, {"step": 100 * i, "time": 1.0, **time}]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "checkpoints" / "last").write_text("episode_300\n")
    return folder


@pytest.fixture(scope="module")
def opened() -> Iterator[Callable[[Path], browser.Page]]:
    """Opens a page in the browser of all tests; ends the test as skipped if there is none."""
    with ExitStack() as held:

        @cache
        def chrome() -> browser.Chromium:
            return held.enter_context(browser.chromium())

        def opened(file: Path) -> browser.Page:
            if browser.missing():
                pytest.skip(browser.missing())
            return chrome().open(file.absolute().as_uri())

        yield opened


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for algo, rates in LAST.items():
        for seed, rate in rates.items():
            make_run(tmp_path / "runs", f"{algo}_seed{seed}", seed, rate, algo=algo)
    return tmp_path / "runs"


def rows_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_tables(runs) -> None:
    done = here("report", "ppo", "ddpg")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("8 runs in 2 groups; Abacus, 2 cores")
    rows = rows_of(done.stdout)
    (ppo,) = [row for row in rows if row[:2] == ["ppo", "4"]]
    assert ppo[2:7] == ["300", "60", "k", "26", "s"], "medians"
    finals = {algo: np.array(list(rates.values())) for algo, rates in LAST.items()}
    middle = estimate_iqm(finals["ppo"])
    assert middle.value == pytest.approx(0.75)
    assert ppo[9:11] == ["75.0", f"({100 * middle.low:.1f}-{100 * middle.high:.1f})"]
    better = probability_of_improvement(finals["ppo"], finals["ddpg"])
    assert better == (4 + 4 + 3.5 + 0) / 16
    (first,) = [row for row in rows if row[:2] == ["ppo", "-"]]
    assert first[2] == f"{(better + 0.5) / 2:.2f}", "mean of both opponents; all win everything against level0"
    assert ["algo", "ppo", "ddpg"] in rows
    assert not [row for row in rows if row[:1] in (["seed"], ["threads"], ["ppo.lr"])]


def test_all_opponents_is_an_interquartile_mean_over_seeds_and_opponents_together(runs) -> None:
    """It may lie outside the plain means of the seeds, which the page shows as well: each place says what it shows."""
    pooled = "interquartile mean over the win rates of all seeds against all opponents together"
    done = here("report", "ppo_seed2", "ppo_seed10", "ppo_seed3", "--html", "r.html")
    (group,) = collect(group_runs(find_runs(["ppo_seed2", "ppo_seed10", "ppo_seed3"], "runs")), OPPONENTS)["groups"]
    scores = np.array([[1, 0.9], [1, 0.2], [1, 0.7]])
    assert group["final"]["all opponents"]["value"] == pytest.approx(estimate_iqm(scores).value)
    assert group["final"]["all opponents"]["each_text"] == ["95.0", "85.0", "60.0"]
    assert f"all opponents: {pooled}\n" in done.stdout
    page = Path("r.html").read_text().partition("<script")[0]
    assert page.count(pooled) == 2
    assert "a thin line is one seed's plain mean over the opponents" in page
    only = {"eval_opponents": ["level2"], "eval_matches": 200}
    make_run(runs, "alone", 1, 0.5, evaluation=only)
    assert "all opponents" not in here("report", "alone").stdout


def test_below_five_seeds_one_line_says_what_cannot_be_concluded(runs) -> None:
    (line,) = [line for line in here("report", "ppo", "ddpg").stdout.splitlines() if "ewer than" in line]
    assert line.startswith(
        "Fewer than 5 seeds: ddpg (4), ppo (4). It can be said how strong these teams are, not that "
    )
    assert "with 4 and 4 seeds chance alone does that in 2.9 % of comparisons" in line, "2 / (8 choose 4)"
    assert line.endswith("train at least 5 (train --seeds 1-5).")
    alone = here("report", "ppo_seed1", "--html", "r.html").stdout
    assert "Fewer than 5 seeds: ppo (1)" in alone
    assert "not how strong another seed of the configuration would be" in alone
    assert '"enough":5,"few":"ppo (1)"' in Path("r.html").read_text()
    for algo in LAST:
        make_run(runs, f"{algo}_seed11", 11, 0.5, algo=algo)
    assert "ewer than" not in here("report", "ppo", "ddpg").stdout
    make_run(runs, "ppo_seed12", 11, 0.5, algo="vdn")
    assert "vdn (1)" in here("report", "ppo", "ddpg", "ppo_seed12").stdout


def test_the_csv_has_a_line_for_every_evaluation(runs) -> None:
    done = here("report", "ppo", "ddpg", "--csv", "r.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("CSV: r.csv\n")
    rows = list(csv.DictReader(Path("r.csv").read_text(encoding="utf-8-sig").splitlines()))
    assert len(rows) == 8 * 2 * 4, "runs, opponents, evaluations"
    chosen = [row for row in rows if row["group"] == "ppo" and row["opponent"] == "level2" and row["is_last"] == "1"]
    assert {int(row["seed"]): float(row["win_rate"]) for row in chosen} == LAST["ppo"]
    (row,) = [row for row in chosen if row["seed"] == "2"]
    assert (row["episode"], row["env_steps"], float(row["seconds"]), row["evaluation"]) == ("300", "60000", 24.0, "3")
    assert float(row["win_rate_low"]) < 0.9 < float(row["win_rate_high"])
    assert row["run"] == str(Path("runs/snakes_3v3/ppo_seed2"))


def test_terminal_and_page_round_alike(runs, opened) -> None:
    """Also 0.625, which Python rounds to 0.62 and JavaScript to 0.63: the page has the texts of the terminal."""
    make_run(runs, "low", 1, 0.5, algo="vdn")
    for seed, rate in enumerate((0.1, 0.2, 0.3, 0.9), start=1):
        make_run(runs, f"mixed_seed{seed}", seed, rate, algo="qmix")
    done = here("report", "low", "mixed", "--html", "r.html")
    data = re.search(r'id="report-data">(.*?)</script>', Path("r.html").read_text(), re.DOTALL)
    document = json.loads(data[1])
    cells = [each for row in document["improvement"] for each in row if each]
    cells += [each for group in document["groups"] for each in group["final"].values()]
    assert sorted(cell["value"] for cell in cells if cell["value"] in (0.625, 0.375)) == [0.375, 0.625]
    for cell in cells:
        ends = f" ({'-'.join(cell['ends'])})" if cell["ends"] else ""
        assert f"{cell['text']}{ends}" in done.stdout
    page = opened(Path("r.html"))
    shown = page.value("[...document.querySelectorAll('#improvement td')].map(cell => cell.textContent)")
    assert shown == ["", "0.62", "0.38", ""]
    shown = page.value("[...document.querySelectorAll('#runs td:nth-child(3)')].map(cell => cell.textContent)")
    assert shown == ["75.0", "55.0", "60.0", "65.0", "95.0"]
    assert page.value("[...document.querySelectorAll('.pooled')].every(text => !text.hidden)")
    assert page.errors == []


def test_groups_are_named_by_what_differs(runs) -> None:
    make_run(runs, "slow", 1, 0.1, ppo={"lr": 0.001})
    text = here("report", "slow", "ppo", "ddpg_seed1").stdout
    assert {row[0] + " " + row[1] for row in rows_of(text)[4:6]} == {"ppo lr=0.001", "ppo lr=0.003"}
    assert any(row[:2] == ["ddpg", "1"] for row in rows_of(text))
    same = {"algo": "ppo", "a": 1, "b": 2, "c": 3, "d": 4}
    several = group_names([same, same | {"a": 0, "b": 0, "c": 0}, same | {"a": 0, "b": 0, "c": 0, "d": 0}])
    assert several == ["ppo a=1 b=2 c=3", "ppo a=0 b=0 c=0 (1)", "ppo a=0 b=0 c=0 (2)"]
    assert group_names([{"algo": "ppo", "lr": 1}]) == ["ppo"]


def test_the_json_has_marl_evals_layout(runs) -> None:
    done = here("report", "ppo", "ddpg", "--json", "r.json")
    assert done.returncode == 0, done.stderr
    tasks = json.loads(Path("r.json").read_text())["snakes_3v3"]
    assert list(tasks) == ["level0", "level2"]
    assert list(tasks["level2"]) == ["ppo", "ddpg"]
    run = tasks["level2"]["ppo"]["seed_2"]
    assert list(tasks["level2"]["ppo"]) == ["seed_1", "seed_2", "seed_3", "seed_10"]
    assert list(run) == ["step_1", "step_2", "step_3", "step_4", "absolute_metrics"]
    assert [run[f"step_{i}"]["step_count"] for i in (1, 2, 3, 4)] == [0, 20_000, 40_000, 60_000]
    assert run["step_4"]["win_rate"] == run["absolute_metrics"]["win_rate"] == [0.9]
    assert run["step_4"]["elapsed_time"] == [pytest.approx(24)]
    for seed in (4, 5):
        make_run(runs, f"wide_seed{seed}", seed, 0.5, network={"body": [256, 128]})
        make_run(runs, f"slim_seed{seed + 2}", seed + 2, 0.5, network={"body": [64, 64]})
    assert here("report", "wide", "slim", "--json", "r.json").returncode == 0
    groups = json.loads(Path("r.json").read_text())["snakes_3v3"]["level2"]
    assert list(groups) == ["ppo body=256 128", "ppo body=64 64"], "no commas"
    assert [list(group) for group in groups.values()] == [["run_1", "run_2"]] * 2, "other seeds, the same names"
    done = here("report", "ppo_seed1", "ddpg", "--json", "r.json")
    assert "marl-eval needs the same number for all: groups have different numbers of seeds (1, 4)" in done.stderr


def test_marl_eval_reads_the_json(runs) -> None:
    """marl-eval's own checks pass, and the interquartile mean of rliable is that of the report."""
    reason = "marl-eval is not installed (docs/log/training.md)"
    processing = pytest.importorskip("marl_eval.utils.data_processing_utils", reason=reason)
    diagnosis = pytest.importorskip("marl_eval.utils.diagnose_data_errors", reason=reason)
    rliable = pytest.importorskip("rliable.metrics", reason=reason)
    assert here("report", "ppo", "ddpg", "--json", "r.json").returncode == 0
    document = json.loads(Path("r.json").read_text())
    assert set(diagnosis.DiagnoseData(document).check_data()["snakes_3v3"].values()) == {True}
    data = processing.data_process_pipeline(document, [])
    last, curves = processing.create_matrices_for_rliable(data, "snakes_3v3", [])
    for algo, rates in LAST.items():
        scores = last["mean_win_rate"][algo]
        assert scores[:, 1] == pytest.approx(list(rates.values()))
        assert curves["mean_win_rate"][algo].shape == (4, 2, 4), "runs, opponents, evaluations"
        assert rliable.aggregate_iqm(scores) == pytest.approx(estimate_iqm(scores).value)


def test_unfinished_runs_are_left_out(runs) -> None:
    make_run(runs, "cut_off", 4, 0.9, limit=400)
    done = here("report", "ppo", "cut_off")
    assert "left out: runs/snakes_3v3/cut_off is unfinished" in done.stderr
    assert done.stdout.startswith("4 runs in 1 group;")
    assert "probability" not in done.stdout


def test_one_seed_has_the_interval_of_its_matches(runs) -> None:
    assert " 90.0 (85.1-93.4)" in here("report", "ppo_seed2").stdout


def test_the_picture_has_a_curve_for_each_group(runs) -> None:
    assert here("report", "ppo", "ddpg", "--png", "c.png", "--by", "seconds").returncode == 0
    with Image.open("c.png") as image:
        colours = {colour for _, colour in image.getcolors(10**6)}
    assert {(0, 114, 178), (230, 159, 0)} <= colours


def test_final_teams_play_each_other(tmp_path, monkeypatch) -> None:
    """The team of a real training, as that of two configurations, one with two seeds."""
    monkeypatch.chdir(tmp_path)
    done = here(*TINY_ANY, "--algo", "ppo", "--run_name", "team", "--max_episodes", "1", "--preset", "team")
    assert done.returncode == 0, done.stderr
    other = Path(shutil.copytree("runs/snakes_3v3/team", "runs/snakes_3v3/score"))
    config = (other / "config.yaml").read_text()
    assert "preset: team" in config
    (other / "config.yaml").write_text(config.replace("preset: team", "preset: score"))
    second = Path(shutil.copytree(other, "runs/snakes_3v3/score2"))
    (second / "config.yaml").write_text((other / "config.yaml").read_text().replace("seed: 1\n", "seed: 2\n"))
    done = here("report", "score", "score2", "team", "--cross_play", "4", "--html", "r.html", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    rows = done.stdout.partition("cross-play of the final teams")[2].splitlines()
    first, second = (float(re.search(r"\d+\.\d", row)[0]) for row in rows[2:4])
    assert "ppo preset=score" in rows[2]
    assert first + second == pytest.approx(100, abs=0.11)
    assert '"matches":4' in Path("r.html").read_text()
    context = forking_context()  # processes that have loaded torch
    monkeypatch.setattr(multiprocessing, "get_context", {"spawn": context}.__getitem__)
    two = here("report", "score", "score2", "team", "--cross_play", "4", "--side_by_side", "2", "--device", "cpu")
    assert two.stdout == done.stdout.replace("page: r.html\n", ""), "the same matches in several processes"


def test_the_page_speaks_chinese(runs, tmp_path, opened) -> None:
    assert here("report", "ppo", "ddpg", "--html", "r.html").returncode == 0
    seen = "[$('main').innerText, ...[...document.querySelectorAll('[aria-label]')].map(each => each.ariaLabel)]"
    page = opened(tmp_path / "r.html")
    english = page.value(seen)
    page.speak("zh-CN,en")
    page.goto((tmp_path / "r.html").as_uri())
    page.value("$('#machine').remove()")
    names = r"\b(ppo|ddpg|level\d|seed|runs|snakes|lr|tau|algo)\w*|English"
    left = re.sub(names, "", " ".join(page.value(seen)))
    assert re.findall(r"[A-Za-z]{2,}", left) == []
    page.click("#language")
    page.goto((tmp_path / "r.html").as_uri())
    assert page.value(seen) == english, "the choice is remembered"
    assert page.errors == []


def test_the_page(runs, tmp_path, opened) -> None:
    make_run(runs, "evil", 1, 0.1, evil=EVIL)
    make_run(runs, "tame", 1, 0.1, evil="-")
    done = here("report", "ppo_seed1", "ppo_seed2", "ppo_seed3", "ddpg", "evil", "tame", "--html", "r.html")
    assert done.returncode == 0, done.stderr
    file = tmp_path / "r.html"
    page = opened(file)
    numbers = "[...document.querySelectorAll('#final tbody tr')].map(r => r.querySelectorAll('td')[4].textContent)"
    assert [text.partition(".")[0] for text in page.value(numbers)] == ["80", "55", "10", "10"]
    assert page.value("document.querySelectorAll('#curves figure').length") == 3
    assert page.value("document.querySelectorAll('#curves .mean').length") == 12
    assert page.value("document.querySelectorAll('#curves figure:first-child .band').length") == 2
    before = page.value("document.querySelector('#curves').textContent")
    page.click("#axis button:nth-child(3)")
    assert "seconds of training" in page.value("document.querySelector('#curves').textContent") != before
    assert EVIL in page.value("document.querySelector('main').textContent")
    assert page.value("window.hacked === undefined")
    assert page.value("document.querySelector('#cross-part').hidden")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    shades = []
    for scheme in ("dark", "light"):
        page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        shades.append(page.value(paper))
    assert shades == ["rgb(13, 15, 21)", "rgb(252, 252, 250)"]
    page.resize(390, 844, phone=True)
    page.wait("document.documentElement.scrollWidth === 390")
    heights = "[...document.querySelectorAll('#runs tr, #settings tr')].map(row => row.getBoundingClientRect().height)"
    assert max(page.value(heights)) < 100, "four lines: names of folders and settings are not cut into letters"
    assert (page.errors, page.requests) == ([], [file.as_uri()])


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], ["report needs RUN ..."]),
        (["nothing"], ["nothing: no run", "there: 5 more"]),
        (["ppo", "--cross_play", "10"], ["--cross_play needs runs of two configurations"]),
        (["ppo", "--by", "weeks"], ["--by", "weeks"]),
        (["ppo", "--html", "no/such/page.html"], ["no folder 'no/such'"]),
        (["ppo", "--html", "runs/snakes_3v3/other/run.json/page.html"], ["run.json' is a file; need a folder"]),
        (["other"], ["none of these runs is finished and evaluated: runs/snakes_3v3/other is unfinished"]),
        (["ppo", "far"], ["no opponent of their evaluations in common", "level0, level2"]),
    ],
)
def test_mistakes(runs, words, parts) -> None:
    make_run(runs, "other", 1, 0.1, limit=900)
    far = make_run(runs, "far", 1, 0.1, evaluation={"eval_opponents": ["level9"], "eval_matches": 2})
    metrics = far / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace("level0", "level9"))
    for i in range(7):
        make_run(runs, f"more{i}", 1, 0.1)
    assert_one_line(here("report", *words), *parts)


def test_a_document_has_no_nan(runs) -> None:
    document = collect(group_runs(find_runs(["ppo_seed1"], "runs")), OPPONENTS)
    json.dumps(document, allow_nan=False)
    assert document["groups"][0]["final"]["all opponents"]["low"] is None
    assert not math.isnan(document["groups"][0]["final"]["level2"]["low"])

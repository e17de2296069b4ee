"""snakes bench scaling: the model by hand and against real ranks on a slow network, and the command."""

import json
import math

import pytest
from helpers import slow_network, slow_ranks
from helpers.command import assert_one_line
from helpers.processes import wait_until
from helpers.training import alone, here
from PIL import Image

from marl import cli
from marl.bench import command, scaling, scaling_rank
from marl.bench.scaling_model import Link, Work, expected_maximum, fit_link, predict_cycle, reduction_seconds

GLOO = Link("a cable", "gloo", latency=0.01, bandwidth=1000.0)
NCCL = Link("a bus", "nccl", latency=0.01, bandwidth=1000.0, start=0.5)
MIB = 2**20
SMALL = [
    *("--device", "cpu", "--matches", "16", "--body", "8", "--batch_size", "24", "--turns", "2", "--updates", "2"),
    *("--buffer_size", "960", "--warmup_turns", "8", "--eval_matches", "2", "--eval_opponents", "level0"),
]

# --- the model


@pytest.mark.parametrize(
    ("link", "size", "ranks", "seconds"),
    [
        (GLOO, 400, 1, 0.0),
        (GLOO, 16, 2, 2 * (2 * 0.01 + 2 * 0.004)),  # two segments of 4 bytes, twice
        (GLOO, 400, 2, 2 * (2 * 0.01 + 2 * 0.1)),
        (GLOO, 400, 4, 2 * (3 * (0.01 + 2 * 0.05) + 0.01)),  # 3 pairs of segments of 50 bytes, twice
        (GLOO, 40, 4, 2 * (3 * (2 * 0.01 + 0.005) + 0.005)),  # a segment is faster than a message
        (GLOO, 6 * MIB, 2, 2 * (1.5 * (0.01 + 2 * MIB / 1000) + 0.01)),  # 3 segments of 1 MiB per rank
        (NCCL, 400, 1, 0.0),
        (NCCL, 4, 8, 0.5 + 6 * 0.01 + 0.008),  # the tree: 3 steps up and 3 down
        (NCCL, 4000, 8, 0.5 + 14 * 0.01 + 7.0),  # the ring: 14 steps of 500 bytes
    ],
)
def test_seconds_of_a_reduction(link, size, ranks, seconds):
    assert reduction_seconds(size, ranks, link) == pytest.approx(seconds)


@pytest.mark.parametrize("bandwidth", [1e8, 2e9, 1e11])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_link_is_found_again_from_its_times(ranks, bandwidth):
    link = Link("here", "gloo", latency=50e-6, bandwidth=bandwidth)
    small, large = ((size, reduction_seconds(size, ranks, link)) for size in (scaling_rank.SMALL, scaling_rank.LARGE))
    fitted = fit_link("here", ranks, small, large)
    assert fitted.latency == pytest.approx(link.latency, rel=0.05)
    assert reduction_seconds(100_000, ranks, fitted) == pytest.approx(reduction_seconds(100_000, ranks, link), rel=0.05)


def test_the_slowest_of_several():
    assert expected_maximum([3.0], 64) == 3
    assert expected_maximum([1.0, 2.0], 1) == pytest.approx(1.5)
    assert expected_maximum([2.0, 1.0], 2) == pytest.approx(0.25 * 1 + 0.75 * 2)
    assert expected_maximum([1.0, 2.0, 4.0], 3) == pytest.approx((1 * 1 + 7 * 2 + 19 * 4) / 27)


def test_a_cycle():
    """Two stretches; the second one only in one of two cycles (PPO stops its round early)."""
    work = Work([[1.0, 2.0], [4.0]], {400: 3.0, 16: 1.0}, cycles=2)
    assert work.mean == pytest.approx(3.5)
    cycle = predict_cycle(work, 2, GLOO)
    assert cycle.compute == pytest.approx(3.5)
    assert cycle.waiting == pytest.approx(1.75 - 1.5)
    assert cycle.reduction == pytest.approx(3 * 0.44 + 0.04 + 0.016)
    assert cycle.seconds == pytest.approx(sum(cycle))
    crowded = predict_cycle(work, 2, GLOO, slower=2.0)
    assert (crowded.compute, crowded.waiting) == pytest.approx((7.0, 0.5))
    assert predict_cycle(work, 1, GLOO) == pytest.approx((3.5, 0, 0))


def test_work_between_reductions():
    cycle = scaling_rank._Cycle()
    cycle.begin, cycle.end = 10.0, 20.0
    assert cycle.stretches() == [10.0]
    from marl.ranks.collective_clock import Reduction

    cycle.reductions = [Reduction(11, 12, 13, 8), Reduction(15, 15, 16, 8)]
    assert cycle.stretches() == [1 + 4, 2]  # 4 after the last one


def test_the_model_tells_the_reductions_of_real_ranks_within_10_percent(tmp_path):
    ranks = 2
    if slow_network.missing():
        pytest.skip(slow_network.missing())
    delay, bandwidth = 0.05, 0.5e6
    with slow_network.slow_network(ranks) as network:
        running = network.start_ranks(slow_ranks.time_reductions, str(tmp_path), [1000, 100_000], 4)
        ready = [tmp_path / f"ready{rank}" for rank in range(ranks)]

        def are_ready() -> bool:
            assert all(rank.poll() is None for rank in running), [r.stderr.read() for r in running if r.poll()]
            return all(file.exists() for file in ready)

        wait_until(are_ready, slow_ranks.LIMIT, "all ranks are ready")
        network.delay, network.bandwidth = delay, bandwidth
        (tmp_path / "slow").touch()
        for rank in running:
            assert rank.wait(slow_ranks.LIMIT) == 0, rank.stderr.read()
    link = Link("the slow network", "gloo", delay, bandwidth)
    found = json.loads((tmp_path / "found.json").read_text())
    assert [size for size, _ in found] == [1000, 100_000, 4 * slow_ranks.GRADIENTS]
    for size, seconds in found:
        predicted = reduction_seconds(size, ranks, link)
        print(f"{ranks} ranks, {size} bytes: predicted {predicted:.3f} s, measured {seconds:.3f} s")
        assert predicted == pytest.approx(seconds, rel=0.1), (ranks, size)


# --- the command


def test_two_ranks_by_the_command_line(tmp_path):
    picture = tmp_path / "scaling.png"
    words = ("--ranks", "2", "--seconds", "0.02", "--json", "--png", picture)
    result = alone("bench", "scaling", *words, *SMALL)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["machine"]["cpu"]["cores"] >= 1
    assert (report["algo"], report["device"], report["scaling"]) == ("ddpg", "cpu", "strong")
    one, two = report["rows"]
    assert (one["ranks"], two["ranks"]) == (1, 2)  # one rank is always measured
    assert (one["backend"], two["backend"]) == (None, "shared memory")
    assert one["ratio"] == 1
    assert two["ratio"] == pytest.approx(two["env_steps_per_second"] / one["env_steps_per_second"])
    for row in (one, two):
        assert tuple(row["shares"]) == scaling.PARTS
        assert sum(row["shares"].values()) == pytest.approx(1)
        assert min(row["shares"].values()) >= 0
        # A cycle has 2 turns of 16 matches per rank and 2 updates; an update of all ranks counts once.
        assert row["env_steps_per_second"] == pytest.approx(row["updates_per_second"] * 16 * row["ranks"])
    assert one["shares"]["reduction"] == one["shares"]["waiting"] == 0
    assert all(two["shares"][part] > 0 for part in ("collect", "learn", "reduction", "evaluation", "saving"))
    model = report["model"]
    assert list(model["links"]) == ["this machine", "NVLink", "InfiniBand"]
    assert all(link["latency_us"] > 0 and link["bandwidth_gb_s"] > 0 for link in model["links"].values())
    assert sorted(map(int, model["work"])) == [2, 8, 16, 64]
    # Per cycle: gradients of critic and actor together in 2 updates, and the ranks' agreement to go on.
    assert sorted(model["work"]["2"]["reductions_per_cycle"].values()) == [1, 2]
    places = [(each["link"], each["ranks"]) for each in model["predictions"]]
    assert places == [("this machine", 2), *((link, n) for link in ("NVLink", "InfiniBand") for n in (8, 16, 64))]
    for each in model["predictions"]:
        assert each["env_steps_per_second"] > 0
        assert each["waiting_ms"] >= -1e-9
    assert any("as given for every rank" in note for note in report["notes"])
    with Image.open(picture) as image:
        assert image.format == "PNG"
    printed = scaling.table(report)
    assert printed.count("NVLink") == 5  # its line, its rows, the note
    assert all(f"note: {note}" in printed for note in report["notes"])


def test_notes_and_default_ranks(monkeypatch):
    monkeypatch.setattr(scaling.machine, "usable_cores", lambda: 2)
    notes = scaling.ScalingBench(["--device", "cpu"], [1, 3, 8], 1.0).notes
    assert "3 ranks do not divide ddpg.batch_size 1,024: they have 1,008 in all" in notes
    assert "3 ranks do not divide matches 256: they have 258 in all" in notes
    assert any(note.startswith("3, 8 ranks share 2 cores") for note in notes)
    assert scaling.ScalingBench(["--device", "cpu"], None, 1.0)._ranks == [1, 2, 4, 8]
    weak = scaling.ScalingBench(["--scaling", "weak", "--device", "cpu"], [3], 1.0).notes
    assert not any("divide" in note for note in weak)


def test_ranks_that_cannot_share_the_run_are_noted(monkeypatch):
    """One rank is measured, eight have a model, more cannot have one."""
    parts = {"collect": 1.0, "learn": 3.0, "reduction": 0.0, "waiting": 0.0}
    one = dict.fromkeys(("evaluation_seconds", "saving_seconds", "eval_interval", "save_interval"), 0)
    one |= {"ranks": 1, "backend": None, "device": "cpu", "threads": 1, "matches": 8, "batch": 24, "link": None}
    one |= {"turns": 2, "updates": 2, "cycle_seconds": 8.0, "parts": parts}
    work = {"stretches": [[1.0], [1.0]], "reductions": {"400": 2.0}, "cycles": 1, "threads": 1}
    work |= {"turns": 2, "updates": 2, "matches": 1}
    shares = {"8": work} | {ranks: {"problem": "too many"} for ranks in ("16", "64")}
    monkeypatch.setattr(scaling.ScalingBench, "_launch", lambda self, task, ranks: one if task == "ranks" else shares)
    report = scaling.ScalingBench(["--device", "cpu"], [1], 1.0).report()
    (row,) = report["rows"]
    assert (row["env_steps_per_second"], row["updates_per_second"]) == pytest.approx((16 / 8, 2 / 8))
    assert row["shares"] == pytest.approx(dict.fromkeys(scaling.PARTS, 0.0) | {"collect": 0.25, "learn": 0.75})
    assert [(each["link"], each["ranks"]) for each in report["model"]["predictions"]] == [
        ("NVLink", 8),
        ("InfiniBand", 8),
    ]
    # 2 turns of 8 x 1 matches in 2 seconds instead of 2 turns of 8 matches in 8.
    assert report["model"]["predictions"][0]["ratio"] == pytest.approx(4, rel=1e-3)
    assert report["notes"][-2:] == [f"no model of {ranks} ranks: too many" for ranks in (16, 64)]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["scaling", "--ranks", "0"], ["--ranks", "'0'"]),
        (["scaling", "--ranks", "2,x"], ["--ranks", "'2,x'"]),
        (["scaling", "--device", "cpu", "--ranks", "200"], ["200 ranks cannot share 256 matches"]),
        (["scaling", "--device", "cpu", "--backend", "nccl"], ["--backend nccl", "CPU"]),
        (["scaling", "--gama", "1"], ["--gama", "did you mean --gamma?"]),
        (["scaling", "--matches", "7"], ["matches is 7", "even"]),
        (["scaling", "--png", "nowhere/x.png"], ["--png", "nowhere"]),
        (["train", "--ranks", "2"], ["--ranks"]),
        (["arena", "--ranks", "2"], ["--ranks", "bench scaling"]),
        (["arena", "--png", "x.png"], ["--png", "bench scaling"]),
    ],
)
def test_mistakes_are_one_line(words, parts):
    assert_one_line(here("bench", *words), *parts)


def test_not_below_torchrun(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    assert cli.main(["bench", "scaling"]) == 2
    assert "without torchrun" in capsys.readouterr().err


def test_words_that_go_on_to_the_configuration():
    words = ["scaling", "--ranks", "1,2", "--algo", "ppo", "--png=x.png", "--json", "--run-name", "scaling"]
    own = ["scaling", "--ranks", "1,2", "--png=x.png", "--json"]
    assert command.set_aside(words) == (own, ["--algo", "ppo", "--run-name", "scaling"])


def test_intervals_of_zero_take_no_time():
    found = {"evaluation_seconds": 3.0, "saving_seconds": 2.0, "eval_interval": 0, "save_interval": 5}
    assert scaling._pauses(found) == {"evaluation": 0.0, "saving": 2.0 / 1000}
    assert math.isclose(scaling._pauses(found | {"eval_interval": 10}, evaluating=3)["evaluation"], 1 / 2000)

"""Checkpoints that several ranks write beside training: complete, incomplete, slow, failed."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.processes import wait_until

from marl.storage import checkpoint_writer, saver
from marl.storage.checkpoint_finder import list_complete, load
from marl.storage.saver import Saver, on_host

WORLD = 3


def savers(run: Path) -> list[Saver]:
    """The savers of three ranks, in one process."""
    ranks = [Saver(0, lambda *_: None, rank, WORLD) for rank in range(WORLD)]
    start = ranks[0].prepare(run)
    for each in ranks:
        each.start = start
    return ranks


def save(ranks: list[Saver], run: Path, episode: int, best: bool = False, only: tuple[int, ...] = (0, 1, 2)) -> None:
    part = {"buffer": torch.full((100,), float(episode))}
    for rank in only:
        if rank == 0:
            ranks[0].save(run, episode, {"a": torch.ones(2)}, {"state": {}, "rank0": part}, {"world_size": WORLD}, best)
        else:
            ranks[rank].save_part(run, episode, part)


def wait_for_looks(rank: Saver, monkeypatch) -> Callable[[], None]:
    """A function that waits until rank 0 has looked twice more for the parts of others. Call this before the save."""
    looks, patience = [], rank._patience
    monkeypatch.setattr(rank, "_patience", lambda: (looks.append(1), patience())[1])

    def wait() -> None:
        seen = len(looks)
        wait_until(lambda: len(looks) >= seen + 2, 60, "rank 0 looks for parts", every=0.01)

    return wait


def wait_until_given_up(rank: Saver) -> None:
    """Until it waits for no part any more. A rank that would wait for ever is closed, so that the test can end."""
    try:
        wait_until(lambda: rank.unfinished == 0, 60, "rank 0 gives up", every=0.01)
    finally:
        rank.close()


def hidden(run: Path) -> list[str]:
    return [path.name for path in (run / "checkpoints").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_every_rank_writes_its_part_and_rank_0_completes_the_checkpoint(tmp_path, order) -> None:
    ranks = savers(tmp_path)
    for episode in (1, 2):
        for rank in order:
            save(ranks, tmp_path, episode, best=episode == 1, only=(rank,))
    for each in ranks:
        each.finish()
        each.close()
    found = load(tmp_path)
    assert (found.episode, found.parts) == (2, ["rank0", "rank1", "rank2", "state"])
    assert all(found.part(f"rank{rank}")["buffer"].tolist() == [2.0] * 100 for rank in range(WORLD))
    assert load(tmp_path / "checkpoints" / "best").episode == 1
    assert sorted(path.name for path in found.path.iterdir()) == sorted([*found.manifest["files"], "manifest.json"])
    assert hidden(tmp_path) == []


def test_two_saves_of_one_episode_do_not_mix(tmp_path) -> None:
    """As at the end of a run; the other ranks have written both before rank 0 begins."""
    ranks = savers(tmp_path)
    for value in (1.0, 2.0):
        for rank in (1, 2):
            ranks[rank].save_part(tmp_path, 1, {"value": value})
    for value in (1.0, 2.0):
        ranks[0].save(tmp_path, 1, {}, {"state": {}, "rank0": {"value": value}}, {"world_size": WORLD}, False)
        ranks[0].finish()
        assert [load(tmp_path).part(f"rank{rank}")["value"] for rank in range(WORLD)] == [value] * WORLD
    assert hidden(tmp_path) == []


def test_ranks_without_a_part(tmp_path) -> None:
    ranks = savers(tmp_path)
    for rank in (1, 2):
        ranks[rank].save_part(tmp_path, 1, None)
    save(ranks, tmp_path, 1, only=(0,))
    ranks[0].finish()
    assert load(tmp_path).parts == ["rank0", "state"]


def test_a_checkpoint_waits_for_a_slow_rank_and_a_save_returns_at_once(tmp_path, monkeypatch) -> None:
    ranks = savers(tmp_path)
    wait = wait_for_looks(ranks[0], monkeypatch)
    save(ranks, tmp_path, 1, only=(0, 1))
    ranks[1].finish()
    wait()
    assert ranks[0].unfinished == 1
    assert list_complete(tmp_path) == []
    save(ranks, tmp_path, 1, only=(2,))
    ranks[0].finish()
    assert (load(tmp_path).episode, ranks[0].unfinished) == (1, 0)


@pytest.mark.parametrize("how", ["close", "abandon"])
def test_a_part_that_never_comes_costs_this_checkpoint_alone(tmp_path, how, monkeypatch) -> None:
    monkeypatch.setattr(saver, "GRACE", 0.3)
    ranks = savers(tmp_path)
    save(ranks, tmp_path, 1)
    ranks[0].finish()
    save(ranks, tmp_path, 2, only=(0, 1))
    ranks[1].finish()
    getattr(ranks[0], how)()
    wait_until_given_up(ranks[0])
    assert "the part rank2 has not come; episode_1 is still good" in ranks[0].problem()
    ranks[0].close()
    assert load(tmp_path).episode == 1
    assert hidden(tmp_path) == []


def test_parts_that_grow_are_waited_for_after_a_failure(tmp_path, monkeypatch) -> None:
    """Another rank is lost, but the part of this one is on its way."""
    monkeypatch.setattr(saver, "GRACE", 60.0)
    ranks = savers(tmp_path)
    wait = wait_for_looks(ranks[0], monkeypatch)
    save(ranks, tmp_path, 1, only=(0, 1))

    def save_last_part() -> None:
        ranks[0]._closing.wait()
        wait()
        save(ranks, tmp_path, 1, only=(2,))

    threading.Thread(target=save_last_part, daemon=True).start()
    ranks[0].close()
    assert load(tmp_path).episode == 1


def test_a_rank_that_cannot_write_says_so_in_one_line(tmp_path, monkeypatch) -> None:
    ranks = savers(tmp_path)
    save(ranks, tmp_path, 1)
    ranks[0].finish()
    write = checkpoint_writer._write_file

    def full(path: Path, fill):
        if path.name == "rank1.pt":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, fill)

    monkeypatch.setattr(checkpoint_writer, "_write_file", full)
    save(ranks, tmp_path, 2)
    ranks[1].wait()
    assert ranks[1].has_failed
    problem = ranks[1].problem()
    assert problem.endswith("episode_2: No space left on device; episode_1 is still good, check the disk and --resume")
    ranks[0].abandon()
    wait_until_given_up(ranks[0])
    assert load(tmp_path).episode == 1


def test_drafts_of_an_earlier_start_are_cleared_and_its_ranks_do_no_harm(tmp_path, monkeypatch) -> None:
    earlier = savers(tmp_path)
    save(earlier, tmp_path, 1, only=(1,))
    earlier[1].finish()
    assert len(hidden(tmp_path)) == 1
    ranks = savers(tmp_path)
    assert hidden(tmp_path) == []
    earlier[1].saved = 0
    save(earlier, tmp_path, 1, only=(1,))  # a rank of the earlier start that is not dead yet
    earlier[1].finish()
    wait = wait_for_looks(ranks[0], monkeypatch)
    save(ranks, tmp_path, 1, only=(0, 2))
    ranks[2].finish()
    wait()
    assert ranks[0].unfinished == 1
    save(ranks, tmp_path, 1, only=(1,))
    ranks[0].finish()
    assert load(tmp_path).episode == 1


def test_a_folder_that_a_rank_does_not_see(tmp_path) -> None:
    assert not Saver(0, lambda *_: None).sees(tmp_path, seconds=0.2)
    Saver(0, lambda *_: None).prepare(tmp_path)
    assert Saver(0, lambda *_: None).sees(tmp_path)


def test_what_is_saved_does_not_change_with_what_is_trained() -> None:
    weights, steps = torch.ones(3), torch.zeros(2)
    kept = on_host({"weights": weights, "optimizer": [{"steps": steps}, ("adam", weights)], "episode": 7})
    weights += 1
    steps += 1
    assert kept["weights"].tolist() == kept["optimizer"][1][1].tolist() == [1, 1, 1]
    assert kept["optimizer"][0]["steps"].tolist() == [0, 0]
    assert (kept["episode"], kept["optimizer"][1][0]) == (7, "adam")

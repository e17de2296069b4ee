"""What is done beside the start of a training on a GPU: for the named one, and quietly where there is none."""

import threading

import pytest

from marl.compute import gpu_start


def test_without_a_driver_there_is_no_context(monkeypatch) -> None:
    monkeypatch.setattr(gpu_start, "CUDA", "libcuda_that_is_nowhere.so.1")
    assert not gpu_start.create_context(0)


def test_a_mistake_of_triton_is_not_told() -> None:
    asked = []
    gpu_start.hash_triton(lambda: asked.append(1) or 1 / 0)
    assert asked == [1]


@pytest.mark.needs_cuda
def test_a_gpu_that_exists_gets_a_context() -> None:
    assert gpu_start.create_context(0)
    assert not gpu_start.create_context(99)


@pytest.mark.parametrize(("device", "number"), [("auto", 0), ("cuda", 0), ("cuda:3", 3), ("cuda:x", 0)])
def test_the_context_is_that_of_the_named_gpu(device, number, monkeypatch) -> None:
    asked, done = [], threading.Event()
    monkeypatch.setattr(gpu_start, "create_context", lambda number: (asked.append(number), done.set()))
    gpu_start.begin_gpu_start(device)
    assert done.wait(60)
    assert asked == [number]

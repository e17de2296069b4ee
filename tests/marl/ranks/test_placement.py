"""Backend and device of a rank, and the defaults of NCCL."""

import pytest

from marl.errors import UserError
from marl.ranks.placement import place, set_nccl_defaults


@pytest.mark.parametrize(
    ("backend", "device", "local_rank", "local_world", "gpus", "may_have_nccl", "expected"),
    [
        (None, "auto", 1, 2, 2, True, ("nccl", "cuda:1")),
        (None, "auto", 1, 2, 0, True, ("gloo", "cpu")),
        (None, "auto", 0, 2, 0, False, ("gloo", "cpu")),
        (None, "auto", 0, 1, 1, False, ("gloo", "cuda:0")),
        (None, "cpu", 3, 4, 2, True, ("gloo", "cpu")),
        ("gloo", "auto", 3, 4, 2, True, ("gloo", "cuda:1")),
        ("gloo", "cuda:0", 3, 4, 2, True, ("gloo", "cuda:0")),
        (None, "cuda:1", 0, 1, 2, True, ("nccl", "cuda:1")),
    ],
)
def test_backend_and_device(backend, device, local_rank, local_world, gpus, may_have_nccl, expected) -> None:
    chosen, where = place(backend, device, local_rank, local_world, gpus, may_have_nccl)
    assert (chosen, str(where)) == expected


@pytest.mark.parametrize(
    ("backend", "device", "local_world", "gpus", "message"),
    [
        (None, "auto", 4, 1, r"4 ranks on this node but 1 GPU for them: .*--num_gpus 1, or --backend gloo"),
        ("nccl", "cuda:0", 2, 2, r"one GPU per rank"),
        ("nccl", "auto", 1, 0, r"--backend nccl needs a GPU .*--backend gloo"),
        ("nccl", "cpu", 1, 1, r"--backend nccl needs a GPU"),
        ("mpi", "auto", 1, 1, r"'mpi' is unknown; known: gloo, nccl"),
        (None, "cuda", 1, 0, r"--device cuda: .*--device cpu"),
        (None, "cuda:3", 1, 2, r"--device cuda:3: this machine has 2 GPUs"),
        (None, "tpu", 1, 2, r"--device tpu: unknown; known: auto, cpu, cuda"),
    ],
)
def test_backend_and_device_that_cannot_be(backend, device, local_world, gpus, message) -> None:
    with pytest.raises(UserError, match=message):
        place(backend, device, 0, local_world, gpus, True)


def test_nccl_defaults_never_override_the_user() -> None:
    environment = {"NCCL_DEBUG": "INFO", "PYTORCH_ALLOC_CONF": "garbage_collection_threshold:0.8"}
    before = dict(environment)
    assert set_nccl_defaults(environment) == {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    assert environment == before | {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    assert set_nccl_defaults(environment) == {}
    assert set_nccl_defaults({})["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"

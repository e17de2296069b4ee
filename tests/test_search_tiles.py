"""scripts/search_tiles.py: the candidates, and the steps that it times, at a small size."""

import argparse
import sys

import pytest
import torch
from helpers.command import ROOT
from helpers.triton_kernels import need_triton

from marl.networks.tail_tiles import SMALL_TAIL

sys.path.insert(0, str(ROOT / "scripts"))
import search_tiles


@pytest.mark.parametrize("kernel", search_tiles.CANDIDATES)
def test_candidates_change_one_kernel(kernel) -> None:
    found = list(search_tiles.candidates(kernel, SMALL_TAIL))
    assert len(found) == len(set(found))
    same = [name for name in ("forward", "by_second", "by_first") if name != kernel]
    assert all(getattr(tiles, name) == getattr(SMALL_TAIL, name) for tiles in found for name in same)


def test_every_kernel_has_a_step() -> None:
    need_triton()
    on_gpu = torch.cuda.is_available()
    device, dtype = torch.device("cuda" if on_gpu else "cpu"), torch.bfloat16 if on_gpu else torch.float32
    steps = search_tiles.steps_of((48, 20), 40, 2, SMALL_TAIL._replace(programs=2), device, dtype)
    assert steps.keys() == search_tiles.CANDIDATES.keys()
    for step in steps.values():
        step()


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it searches for a minute")
def test_without_a_gpu_it_says_so(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["search_tiles.py"])
    assert search_tiles.main() == 2
    assert capsys.readouterr().err == "snakes: search_tiles.py needs a GPU; torch sees none\n"


@pytest.mark.parametrize("given", ["x", "256", "256,x", "256,512", "0,128", "256,128,64"])
def test_widths_that_the_kernels_cannot_compute(given) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="need two widths, as 256,128; the second at most 256"):
        search_tiles.widths(given)
    assert search_tiles.widths("512,256") == (512, 256)

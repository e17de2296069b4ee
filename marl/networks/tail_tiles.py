"""Networks that the kernels of a GPU can compute without autograd (stacked_pass.py), and the tiles of these kernels.

Tiles were chosen by measurement on an H200; `python scripts/search_tiles.py` searches them on any GPU.
"""

from typing import NamedTuple

import torch

from marl.networks.dense_pass import DenseLayers

LARGE_MEMORY = ((8, 0), (9, 0), (10, 0), (10, 3))  # capabilities of GPUs with large shared memory
LAYERS = 3  # two hidden layers and the outputs
SECOND_MAX, OUTPUTS_MAX = 256, 16  # widest second hidden layer and most outputs that the kernels take


class TailTile(NamedTuple):
    """What one block of a kernel behind the first layer computes at a time."""

    rows: int
    warps: int
    stages: int
    inputs: int = 64  # of a step of a product
    outputs: int = 128  # of by_first


class TailTiles(NamedTuple):
    """Tiles of the kernels behind the first layer."""

    forward: TailTile
    by_second: TailTile
    by_first: TailTile
    programs: int  # of by_second, which sum up gradients over the rows


LARGE_TAIL = TailTiles(TailTile(128, 8, 3), TailTile(64, 8, 3), TailTile(128, 8, 3), 264)
# For a second hidden layer of more than 128.
WIDE_TAIL = TailTiles(TailTile(128, 8, 3), TailTile(32, 4, 3), TailTile(128, 8, 3), 264)
SMALL_TAIL = TailTiles(TailTile(32, 4, 2, 32), TailTile(16, 4, 2), TailTile(32, 4, 2, 32, 32), 64)


def _has_large_memory(device: torch.device) -> bool:
    """Whether large tiles fit into a device's shared memory: 160 KiB and more in GPUs of data centres, else 100."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) in LARGE_MEMORY


def tail_tiles_for(device: torch.device, width: int) -> TailTiles:
    """The tiles that fit into a device's shared memory. width: of the second hidden layer."""
    if not _has_large_memory(device):
        return SMALL_TAIL
    return LARGE_TAIL if width <= 128 else WIDE_TAIL


def fits_tail_kernels(layers: DenseLayers | None) -> bool:
    """Whether the kernels can compute a network."""
    if layers is None or len(layers.weights) != LAYERS:
        return False
    return len(layers.biases[1]) <= SECOND_MAX and len(layers.biases[2]) <= OUTPUTS_MAX


def launch_options(tile: TailTile) -> dict[str, int]:
    """Options of a kernel's start."""
    return {"TILE_M": tile.rows, "num_warps": tile.warps, "num_stages": tile.stages}

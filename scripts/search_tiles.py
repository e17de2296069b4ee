"""Finds the fastest tiles of the Triton kernels behind a first layer (marl/networks/tail_tiles.py) on this GPU.

    python scripts/search_tiles.py [--body 256,128] [--rows 65535] [--networks 1] [--best 5]

The candidates of a kernel are compiled in as many processes as there are cores, into Triton's cache. Then the step of a
pass that uses the kernel is timed with each of its tiles. Prints the fastest ones of each kernel beside the one in use.
Times include the step's products by cuBLAS, so compare differences only. Change one kernel's tile in tail_tiles.py at
a time and measure by `python -m marl bench train`: in a cycle kernels run beside each other.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import torch
from script_parser import ScriptParser

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from arena.encoders import encoder_named  # noqa: E402
from marl.cli.arguments import count  # noqa: E402
from marl.compute import machine  # noqa: E402
from marl.compute.adam import flatten  # noqa: E402
from marl.networks.actors import make_actor  # noqa: E402
from marl.networks.dense_pass import dense_layers  # noqa: E402
from marl.networks.spec import NetworkSpec  # noqa: E402
from marl.networks.stacked_pass import StackedPass, WideRows  # noqa: E402
from marl.networks.tail_tiles import SECOND_MAX, TailTile, TailTiles, tail_tiles_for  # noqa: E402

OUTPUTS = 5  # of PPO: four logits and a value
ROUNDS = 30  # of a step that is timed
PROGRAMS = (132, 264, 528)  # of by_second
# Kernel -> values of its tile's fields.
CANDIDATES = {
    "forward": {"rows": (64, 128), "warps": (4, 8), "stages": (2, 3, 4), "inputs": (64, 128)},
    "by_second": {"rows": (16, 32, 64), "warps": (4, 8), "stages": (2, 3)},
    "by_first": {"rows": (64, 128), "warps": (4, 8), "stages": (2, 3), "inputs": (32, 64), "outputs": (64, 128, 256)},
}


def candidates(kernel: str, start: TailTiles) -> Iterator[TailTiles]:
    """Tiles that differ from the first ones in one kernel."""
    fields = CANDIDATES[kernel]
    for values in product(*fields.values()):
        tile = TailTile(**dict(zip(fields, values, strict=True)))
        for programs in PROGRAMS if kernel == "by_second" else (start.programs,):
            yield start._replace(**{kernel: tile}, programs=programs)


def steps_of(
    body: tuple[int, ...], rows: int, networks: int, tiles: TailTiles, device: torch.device, dtype: torch.dtype
) -> dict[str, Callable[[], None]]:
    """The step of a pass over random rows that each kernel is part of."""
    encoder = encoder_named("planes")
    layers = dense_layers(make_actor(encoder, NetworkSpec(body, OUTPUTS)).to(device))
    weights = flatten(make_actor(encoder, NetworkSpec(body, OUTPUTS)).to(device).parameters()).expand(networks, -1)
    wide = WideRows(encoder.width, None, 1, rows, dtype, device)
    wide.x[0, :, : encoder.width] = torch.rand(rows, encoder.width, device=device) < 0.1
    passes = StackedPass(layers, weights.contiguous(), wide.x[0], tiles)
    by_outputs = torch.randn_like(passes.outputs)
    passes.take_weights()
    passes.forward()
    passes.backward_outputs(by_outputs)
    return {
        "forward": passes.forward,
        "by_second": lambda: passes.backward_outputs(by_outputs),
        "by_first": passes.backward_first,
    }


def compile_one(body: tuple[int, ...], rows: int, networks: int, kernel: str, tiles: TailTiles) -> bool:
    """Whether a candidate compiles and fits into this GPU's shared memory."""
    try:
        steps_of(body, rows, networks, tiles, torch.device("cuda"), torch.bfloat16)[kernel]()
        torch.cuda.synchronize()
    except Exception:  # Triton has several kinds of errors for what does not fit
        return False
    return True


def microseconds(step: Callable[[], None]) -> float:
    """The time of a step on the GPU."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    step()
    begin.record()
    for _ in range(ROUNDS):
        step()
    end.record()
    end.synchronize()
    return 1000 * begin.elapsed_time(end) / ROUNDS


def widths(text: str) -> tuple[int, int]:
    """Two widths that the kernels can compute."""
    first, _, second = text.partition(",")
    if not (first.isdecimal() and second.isdecimal() and int(first) and 0 < int(second) <= SECOND_MAX):
        raise argparse.ArgumentTypeError(f"{text!r}: need two widths, as 256,128; the second at most {SECOND_MAX}")
    return int(first), int(second)


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("--body", type=widths, default=(256, 128), metavar="N,N", help="widths of both hidden layers")
    parser.add_argument("--rows", type=count, default=65_535, help="of a minibatch")
    parser.add_argument("--networks", type=count, default=1, help="that are computed at once: 2 in DDPG")
    parser.add_argument("--best", type=count, default=5, help="tiles that are printed for each kernel")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("snakes: search_tiles.py needs a GPU; torch sees none", file=sys.stderr)
        return 2
    device = torch.device("cuda")
    start = tail_tiles_for(device, args.body[1])
    shape = args.body, args.rows, args.networks
    with ProcessPoolExecutor(machine.usable_cores(), get_context("spawn")) as pool:
        for kernel in CANDIDATES:
            tried = list(candidates(kernel, start))
            fits = pool.map(compile_one, *zip(*((*shape, kernel, tiles) for tiles in tried), strict=True))
            usable = {tiles for tiles, fit in zip(tried, fits, strict=True) if fit}
            times = {
                tiles: microseconds(steps_of(*shape, tiles, device, torch.bfloat16)[kernel])
                for tiles in {*usable, start}
            }
            print(f"{kernel}: {len(usable)} candidates fit; in use {times[start]:.1f} us", flush=True)
            for tiles in sorted(times, key=times.__getitem__)[: args.best]:
                more = f", programs {tiles.programs}" if kernel == "by_second" else ""
                print(f"  {times[tiles]:6.1f} us  {getattr(tiles, kernel)}{more}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

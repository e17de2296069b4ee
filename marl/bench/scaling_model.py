"""The model of scaling: how long a cycle of training takes on N ranks, from times measured on one rank.

    cycle(N) = sum over the stretches of work between two reductions of E[slowest of N]
             + sum over the reductions of reduction(bytes, N)

E[slowest of N] is the expected maximum of N draws from the measured times of one rank with its share of the work.
A reduction (all-reduce) of b bytes between N ranks, with latency L (seconds, one way) and bandwidth B (bytes/s):

    gloo: 2 (k (L + t + max(L, t)) + min(L, t)), with t = b / (s N B) and k = s (N - 1) / 2
    shared memory: L + 3 b / B: every rank writes b bytes, adds up N parts of b / N, and reads b
    NCCL: start + the smaller of  ring: 2 (N - 1) L + 2 (N - 1) / N b / B
                             and  tree: 2 ceil(log2 N) L + 2 b / B

gloo's ring passes on b / N bytes in each of 2 (N - 1) steps, N - 1 to add up and N - 1 to hand out. They are cut into s
segments, which take t each: 2, or more if a segment would be over 1 MiB. Two segments are on their way at a time, and a
segment is sent when the receiver has asked for it: a pair of segments takes two messages, or one if the request waits
behind the receiver's own data. tests/marl/bench/test_scaling.py compares this with real ranks on a slow network.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

SHARED: Literal["shared memory"] = "shared memory"  # Ranks.transport
GLOO_SEGMENT = 2**20  # bytes, at most
GLOO_SEGMENTS = 2  # of a rank's chunk, at least


class Link(NamedTuple):
    """The connection between ranks."""

    name: str
    backend: Literal["gloo", "nccl", "shared memory"]
    latency: float  # seconds of a message, one way; in shared memory: of two meetings
    bandwidth: float  # bytes per second out of a rank
    start: float = 0.0  # seconds that every reduction by NCCL takes besides

    def as_dict(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "latency_us": 1e6 * self.latency,
            "bandwidth_gb_s": self.bandwidth / 1e9,
            "start_us": 1e6 * self.start,
        }


# Assumed, not measured: what vendors state for these links, less the usual losses of NCCL.
NVLINK = Link("NVLink", "nccl", latency=2e-6, bandwidth=200e9, start=10e-6)  # of an H100 or H200, within a node
INFINIBAND = Link("InfiniBand", "nccl", latency=5e-6, bandwidth=40e9, start=10e-6)  # NDR, 400 Gbit/s per GPU
GPU_LINKS = (NVLINK, INFINIBAND)
GPU_RANKS = (8, 16, 64)


def reduction_seconds(size: float, ranks: int, link: Link) -> float:
    """Seconds of one all-reduce of `size` bytes. Fewer than 2 N numbers take gloo less; they count as 2 N."""
    if ranks == 1:
        return 0.0
    if link.backend == "gloo":
        segments = gloo_segments(size, ranks)
        pairs, latency, segment = segments * (ranks - 1) / 2, link.latency, size / segments / ranks / link.bandwidth
        return 2 * (pairs * (latency + segment + max(latency, segment)) + min(latency, segment))
    if link.backend == SHARED:
        return link.latency + 3 * size / link.bandwidth
    ring = 2 * (ranks - 1) * (link.latency + size / ranks / link.bandwidth)
    tree = 2 * math.ceil(math.log2(ranks)) * link.latency + 2 * size / link.bandwidth
    return link.start + min(ring, tree)


def gloo_segments(size: float, ranks: int) -> int:
    """Segments of the chunk of each rank."""
    return max(GLOO_SEGMENTS, math.ceil(size / ranks / GLOO_SEGMENT))


def fit_link(name: str, ranks: int, small: tuple[int, float], large: tuple[int, float]) -> Link:
    """The gloo link on which all-reduces take as long as measured: two pairs of bytes and seconds."""
    (few, short), (many, long) = small, large
    latency = short / (2 * gloo_segments(few, ranks) * (ranks - 1))  # the bytes of the small message hardly matter
    segments = gloo_segments(many, ranks)
    pairs = segments * (ranks - 1) / 2
    segment = (long / 2 - 2 * pairs * latency) / (pairs + 1)
    if segment > latency:
        segment = (long / 2 - (pairs + 1) * latency) / (2 * pairs)
    segment = max(segment, 1e-3 * long)  # a busy machine: the large message was hardly slower than the small one
    return Link(name, "gloo", latency, many / segments / ranks / segment)


def fit_shared_memory(name: str, small: tuple[int, float], large: tuple[int, float]) -> Link:
    """The shared memory in which sums take as long as measured: two pairs of bytes and seconds."""
    (few, short), (many, long) = small, large
    return Link(name, SHARED, short, 3 * (many - few) / max(long - short, 1e-3 * long))


def expected_maximum(samples: Sequence[float], ranks: int) -> float:
    """Expected largest of `ranks` independent draws from the samples."""
    ordered, count = sorted(samples), len(samples)
    return sum(x * ((i + 1) ** ranks - i**ranks) / count**ranks for i, x in enumerate(ordered))


class Work(NamedTuple):
    """What one rank does in a cycle, measured on one rank alone."""

    # Times of each stretch of work between two reductions, in several cycles. Later ones may be missing in some cycles.
    stretches: Sequence[Sequence[float]]
    reductions: Mapping[int, float]  # bytes -> reductions of that size in a cycle
    cycles: int  # that were measured

    @property
    def mean(self) -> float:
        """Seconds of compute in a cycle."""
        return sum(sum(times) for times in self.stretches) / self.cycles

    def slowest(self, ranks: int) -> float:
        """Expected seconds of compute in a cycle in which every reduction waits for the slowest of the ranks."""
        return sum(len(times) / self.cycles * expected_maximum(times, ranks) for times in self.stretches)


class Cycle(NamedTuple):
    """Predicted seconds of one cycle."""

    compute: float
    waiting: float
    reduction: float

    @property
    def seconds(self) -> float:
        return sum(self)


def predict_cycle(work: Work, ranks: int, link: Link, slower: float = 1.0) -> Cycle:
    """One cycle on this many ranks. slower: factor of compute where ranks have fewer cores than threads."""
    compute = slower * work.mean
    waiting = slower * work.slowest(ranks) - compute
    reduction = sum(count * reduction_seconds(size, ranks, link) for size, count in work.reductions.items())
    return Cycle(compute, waiting, reduction)

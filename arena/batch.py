"""BatchArena: many matches at once, on the CPU or on a GPU, all by the rules in rules.py.

    arena = BatchArena(1024, device="cpu", seed=7)
    arena.start()
    events = arena.play_turn(actions)      # [1024, 6] moves in, tensors out
    arena.start(events.over)               # nothing restarts by itself

B = matches. Tensors handed out belong to the arena and are overwritten by the next call; clone what you keep.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from arena import control_groups, match_dict
from arena.backends import cpu
from arena.backends.tensors import BatchState, Events
from arena.encoder_check import check_encoder
from arena.encoders import encoder_named
from arena.errors import ArenaError, whole_number
from arena.jit import announced
from arena.rules import MATCH_BYTES, OVER, SNAKES

_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


class BatchArena:
    """B matches on one device.

    Match k of seed s is the same on every device and in every batch: arena i of several plays the matches
    first_match .. first_match + B - 1, and a slot that is started again moves on by `stride` (all slots of all arenas).
    """

    def __init__(
        self,
        matches: int,
        device: str | torch.device = "cpu",
        seed: int = 0,
        first_match: int = 0,
        stride: int | None = None,
    ) -> None:
        self.matches = whole_number(matches, "matches", 1, None)  # the memory is the limit
        self.seed = whole_number(seed, "seed")
        self.stride = matches if stride is None else whole_number(stride, "stride")
        first_match = whole_number(first_match, "first_match", 0, 2**62)
        self.device = _checked_device(device)
        self._check_memory()
        if self.device.type == "cuda":
            from arena.backends.cuda import CudaBackend

            self._backend: Any = CudaBackend(self.device)
        else:
            self._backend = cpu.CpuBackend()

        allocate = self._backend.allocate
        self.events = Events(
            allocate((matches, SNAKES), torch.bool),
            allocate((matches, SNAKES), torch.bool),
            allocate((matches, SNAKES), torch.int16),
            torch.zeros(matches, dtype=torch.bool, device=self.device),
        )
        self.state = allocate((matches, MATCH_BYTES), torch.uint8)
        self.state[:, OVER] = 1  # nothing has been started
        self.numbers = torch.arange(first_match, first_match + matches, device=self.device) - self.stride
        self.keys = torch.zeros(matches, dtype=torch.int64, device=self.device)
        self._actions = allocate((matches, SNAKES), torch.int8)
        self._everyone = torch.ones(matches, dtype=torch.bool, device=self.device)
        self._all_seats = torch.arange(matches * SNAKES, dtype=torch.int32, device=self.device)
        batch = BatchState(self.state, self.keys, self.numbers, self._actions, self.events)
        self._backend.bind(batch, self.seed, self.stride)
        self._called: set[str] = set()
        self._checked_out: tuple = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> "BatchArena":
        """The same matches, to be played on apart from these: its loops are bound to tensors of its own."""
        copied = BatchArena(self.matches, self.device, self.seed, stride=self.stride)
        ours, theirs = ((arena.state, arena.numbers, arena.keys, *arena.events) for arena in (self, copied))
        for values, place in zip(ours, theirs, strict=True):
            place.copy_(values)
        return copied

    def start(self, mask: torch.Tensor | None = None) -> None:
        """Start all matches, or those where mask [B] bool is true: each slot goes on to its next match."""
        if mask is None:
            mask = self._everyone
        elif _kind(mask) != (torch.bool, self.device) or mask.shape != (self.matches,):
            raise ArenaError(f"mask is {_described(mask)}; need bool [{self.matches}] on {self.device}")
        self._run("start", self._backend.start, mask)

    def play_turn(self, actions: torch.Tensor) -> Events:
        """Play one turn of every match. actions [B, 6]: any integer type, 0 up, 1 down, 2 left, 3 right.

        Actions outside 0-3 raise on the CPU. On a GPU looking at them would stop the device, so the matches that got
        them stand still and `check` (which get_match calls) raises.
        """
        dtype, device = _kind(actions)
        if dtype not in _INTEGERS or device != self.device or actions.shape != (self.matches, SNAKES):
            raise ArenaError(
                f"actions are {_described(actions)}; need an integer tensor [{self.matches}, {SNAKES}] on {self.device}"
            )
        if actions.dtype == torch.uint8:
            actions = actions.clamp(max=4)
        elif actions.dtype != torch.int8:
            actions = actions.clamp(-1, 4)  # so that 256 does not become 0
        self._actions.copy_(actions)
        self._run("play_turn", self._backend.play)
        return self.events

    def observe(
        self, encoder: str = "features", seats: torch.Tensor | None = None, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """What snakes see: [B, 6, width], or [N, width] for `seats`, an int32 tensor of match * 6 + snake.

        Written into `out` if given, else into a new tensor. Seats of one match that stand together are encoded faster.
        """
        if out is not None and seats is None and self._checked_out[:2] == (encoder, id(out)):
            # As in the call before, so nothing has to be checked.
            self._backend.encode(self._checked_out[4], self._all_seats, out)
            return self._checked_out[3]
        description = encoder_named(encoder)
        check_encoder(description)
        dtype = torch.int8 if description.dtype is np.int8 else torch.uint8
        rows = self._all_seats if seats is None else self._checked_seats(seats)
        shape = (len(rows), description.width)
        if out is None:
            out = torch.empty(shape, dtype=dtype, device=self.device)
        elif _kind(out) != (dtype, self.device) or out.numel() != shape[0] * shape[1] or not _whole_words(out):
            raise ArenaError(
                f"out is {_described(out)}; need contiguous {dtype} {list(shape)} on {self.device}, 8-byte aligned"
            )
        self._run(description.name, self._backend.encode, description, rows, out)
        if seats is not None:
            return out.view(shape)
        by_match = out.view(self.matches, SNAKES, description.width)
        self._checked_out = (encoder, id(out), out, by_match, description)
        return by_match

    def bind_turn(
        self,
        encoder: str,
        seats: torch.Tensor,
        out: torch.Tensor,
        actions: torch.Tensor,
        matches: slice = slice(None),
    ) -> cpu.Calls | None:
        """`observe`, `play_turn` and `start(events.over)` as compiled loops for arena.backends.chain; None on a GPU.

        They check nothing: actions [B, 6] int8 must be from 0 to 3, the other tensors as `observe` takes them.
        matches: those that are played and started, if not all.
        """
        if self.device.type != "cpu":
            return None
        return self._backend.bind_serial(encoder_named(encoder), seats, out, actions, matches)

    def bind_play(self, actions: torch.Tensor) -> Callable[[], None] | None:
        """`play_turn` alone as such a loop; None on a GPU."""
        return self._backend.bind_play(actions) if self.device.type == "cpu" else None

    def check(self) -> None:
        """Raise if a GPU turn was given actions outside 0-3 (waits for the device)."""
        if self._backend.faults():
            raise ArenaError("actions outside 0-3 were given; the matches that got them did not move")

    def get_match(self, i: int) -> dict[str, Any]:
        """Match i as a dictionary (waits for the device)."""
        self._checked_index(i)
        self.check()
        return match_dict.to_dict(self.state[i].cpu().numpy())

    def set_match(self, i: int, match: dict[str, Any]) -> None:
        """Put match i into the state of the dictionary. Its random numbers stay those of its number and turn."""
        self._checked_index(i)
        self.state[i] = torch.from_numpy(match_dict.from_dict(match)).to(self.device)

    def _run(self, what: str, loop: Callable[..., None], *arguments: Any) -> None:
        """Call a loop; the first time, which may have to compile it, say so if it takes long."""
        if what in self._called:
            loop(*arguments)
            return
        with announced(f"{what} for {self.device.type}"):
            loop(*arguments)
        self._called.add(what)

    def _checked_seats(self, seats: torch.Tensor) -> torch.Tensor:
        if _kind(seats) != (torch.int32, self.device) or seats.ndim != 1:
            raise ArenaError(f"seats are {_described(seats)}; need int32 [N] of match * 6 + snake on {self.device}")
        if self.device.type == "cpu" and len(seats):  # on a GPU looking at them would stop the device
            numbers = seats.numpy()  # whose methods take half of the time of a tensor's
            least, most = int(numbers.min()), int(numbers.max())
            if least < 0 or most >= self.matches * SNAKES:
                raise ArenaError(f"seats run from {least} to {most}; allowed: 0 to {self.matches * SNAKES - 1}")
        return seats

    def _checked_index(self, i: int) -> None:
        whole_number(i, "match index", 0, self.matches - 1)

    def _check_memory(self) -> None:
        need = self.matches * (MATCH_BYTES + 16 + SNAKES * 9 + 2)
        free = torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else control_groups.free_memory()
        if need > free:
            raise ArenaError(
                f"{self.matches} matches need {need / 2**30:.1f} GiB on {self.device}, "
                f"{free / 2**30:.1f} GiB are free: "
                f"at most {free // (need // self.matches)} fit"
            )


def _checked_device(device: str | torch.device) -> torch.device:
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        raise ArenaError(f"unknown device {device!r}; allowed: cpu, cuda, cuda:0, ...") from None
    if chosen.type not in ("cpu", "cuda"):
        raise ArenaError(f"device {device!r} cannot play; allowed: cpu, cuda, cuda:0, ...")
    if chosen.type == "cuda":
        count = torch.cuda.device_count()
        if count == 0:
            raise ArenaError(f"device {device!r} was asked for, but torch sees no CUDA device; use device='cpu'")
        index = torch.cuda.current_device() if chosen.index is None else chosen.index
        if index >= count:
            raise ArenaError(f"device {device!r} was asked for, but torch sees only {count} CUDA device(s)")
        return torch.device("cuda", index)
    return torch.device("cpu")


def _kind(value: Any) -> tuple[torch.dtype | None, torch.device | None]:
    """Type and device of a tensor; nothing that matches if it is none."""
    return (value.dtype, value.device) if isinstance(value, torch.Tensor) else (None, None)


def _whole_words(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous() and tensor.data_ptr() % 8 == 0


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)} on {value.device}"

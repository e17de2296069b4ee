"""`export --check`: does a submission.py play like its policy, with numpy alone, and how fast?

The file runs in the sandbox (opponents/sandbox), in a process that finds no module but numpy and Python's own: see
check_harness.py. It is asked for moves in matches that the policy plays here, with the arena's encoders.
"""

import ast
import json
import shutil
import tempfile
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from arena import BatchArena
from arena.encoders import ENCODERS, Encoder, encoder_named
from arena.errors import printable
from arena.jidi import DIRECTION_NAMES, FIRST_SNAKE_KEY, jidi_observation
from arena.match_dict import to_dict
from arena.rules import DIRECTION, SNAKES, TEAM
from marl.cli.invocation import joined
from marl.errors import UserError
from marl.export import check_harness
from marl.export.dense_layers import DenseLayer, forward
from marl.export.oldest_python import OLDEST, Need, newest_need
from marl.export.submission_file import weights_hash
from marl.export.submission_template import unpacked
from marl.networks.policy import mask_reversal, to_board_logits
from opponents.sandbox.controller import HELLO, LOADED
from opponents.sandbox.plain_host import start_host
from opponents.sandbox.process import HOST_SECONDS, Broken, CannotSandbox, MatchProcess
from opponents.sandbox.side_by_side import WAIT_FACTOR, Expected, Job, run_jobs
from opponents.submission import LOAD_SECONDS, LOAD_WAIT_SECONDS

MOVES = 100  # compared
MOST_TURNS = 50  # of a match
TIE = 1e-4  # logits nearer than this may be ordered either way by another order of additions
PLAN_SECONDS = 10.0  # for all planned moves, which are fewer than MOVES if this is not enough
MOVE_SECONDS = 1.0  # of a move, or a few times the time of its plan


class ComparedPolicy(NamedTuple):
    """What moves are compared with."""

    layers: Sequence[DenseLayer]
    encoder: Encoder
    description: str


class Asked(NamedTuple):
    """A position in which a snake is asked for its move."""

    observation: dict[Any, Any]
    snake: int
    logits: np.ndarray  # the policy's, of the moves on the board; the reversal has the lowest


@dataclass
class Result:
    """What was found out about a file in which all is well."""

    path: Path
    compared_with: str
    moves: int
    plan_ms: float | None  # of a call; None if it does not plan
    asked: int  # moves that were asked for as in a match
    plans: int  # of these, how many had a plan
    replies: int
    median_ms: float
    longest_ms: float
    size: int
    need: Need | None  # what needs a newer Python than the oldest

    @property
    def oldest_python(self) -> str:
        """For example 3.6."""
        return f"3.{self.need.minor if self.need else OLDEST}"

    def as_text(self) -> list[tuple[str, str]]:
        """Lines: a title and what there is to say."""
        why = f", for line {self.need.line}: {self.need.what}" if self.need else ""
        plans = []
        if self.plan_ms is not None:
            each = self.replies / max(self.plans, 1)
            plans = [("plans", f"in {self.plans} of {self.asked} moves, {each:.1f} replies each, {self.plan_ms:g} ms")]
        return [
            ("file", str(self.path)),
            ("moves", f"{self.moves} of {self.moves} are those of {self.compared_with}"),
            *plans,
            ("time", f"{self.median_ms:.1f} ms a move (median), {self.longest_ms:.1f} ms at most"),
            ("size", f"{self.size / 1000:,.0f} kB"),
            ("needs", f"Python {self.oldest_python} or later, by its text{why}; numpy alone"),
        ]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "file": str(self.path),
            "compared_with": self.compared_with,
            "moves": self.moves,
            "plan": None
            if self.plan_ms is None
            else {"ms": self.plan_ms, "moves": self.asked, "plans": self.plans, "replies": self.replies},
            "ms_per_move": {"median": self.median_ms, "max": self.longest_ms},
            "bytes": self.size,
            "oldest_python": self.oldest_python,
            "needs": None if self.need is None else {"line": self.need.line, "what": self.need.what},
        }


def check(path: Path, policy: ComparedPolicy | None, uncaged: bool = False) -> Result:
    """Check a submission.py against a policy; None: against that of its own weights. UserError if anything is wrong."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"{path}: there is no such file; {joined(['export', 'PLAYER', '--jidi', str(path.parent)])} writes it"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    return check_source(path, data, policy, uncaged)


def check_source(path: Path, data: bytes, policy: ComparedPolicy | None, uncaged: bool = False) -> Result:
    """The same for the content of a file, which need not be there yet."""
    try:
        text = data.decode().replace("\r\n", "\n")
        tree = ast.parse(text)
        need = newest_need(text)
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: it is no Python: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # bytes that are no text; a NUL; too deep
        raise UserError(f"{path}: it is no Python: {error}") from None
    values = _assigned(tree)
    policy = policy or _own_policy(path, values)
    plan_ms = _plan_ms(values)
    positions = _positions(policy)
    moves, reports = _play(path, data, positions, plan_ms, uncaged)
    failed = [report[-1] for report in reports if report[-1]]
    if failed:
        raise UserError(f"{path}: {printable(failed[0])}")
    _compare(path, positions, moves, policy)
    median, longest, plans, replies, _ = reports[-1]
    return Result(
        path,
        policy.description,
        len(positions),
        plan_ms,
        _planned_moves(plan_ms),
        plans,
        replies,
        median,
        longest,
        len(data),
        need,
    )


def _assigned(tree: ast.Module) -> dict[str, Any]:
    """The expressions of the file's last assignments to plain names."""
    pairs = [(node.targets[0], node.value) for node in tree.body if isinstance(node, ast.Assign)]
    return {target.id: value for target, value in pairs if isinstance(target, ast.Name)}


def _own_policy(path: Path, values: dict[str, Any]) -> ComparedPolicy:
    """The policy of the weights in the file, played by this program; the file is not run for it."""
    try:
        shapes, packed_weights = (ast.literal_eval(each) for each in values["LAYERS"].args)
        name = ast.literal_eval(values["ENCODE"].slice)
        layers = [DenseLayer(weight.T, bias) for weight, bias in unpacked(shapes, packed_weights)]
        stated = ast.literal_eval(values["WEIGHTS_SHA256"])
        player = printable(str(ast.literal_eval(values["PLAYER"])))
        is_known = name in ENCODERS and layers[0].weight.shape[1] == encoder_named(name).width
    except Exception:  # whatever was written there
        is_known = False
    compare = joined(["export", "PLAYER", "--check", str(path.parent)])
    if not is_known:
        what = "its weights cannot be read as export writes them today"
        what = what if "LAYERS" in values else "export did not write it"
        raise UserError(f"{path}: {what}; name the player that it shall play like: {compare}")
    if stated != weights_hash(packed_weights):
        raise UserError(
            f"{path}: its weights are not those that were exported of {player} (WEIGHTS_SHA256); export it again, or "
            f"name the player that it shall play like: {compare}"
        )
    return ComparedPolicy(layers, encoder_named(name), f"the policy of its weights, as they were exported of {player}")


def _plan_ms(values: dict[str, Any]) -> float | None:
    chosen, milliseconds = values.get("choose"), values.get("PLAN_MS")
    if not (isinstance(chosen, ast.Name) and isinstance(milliseconds, ast.Constant)):
        return None
    return float(milliseconds.value) if isinstance(milliseconds.value, (int, float)) else None


def _planned_moves(plan_ms: float | None) -> int:
    return MOVES if plan_ms is None else max(1, min(MOVES, int(PLAN_SECONDS * 1000 / max(plan_ms, 1))))


def _positions(policy: ComparedPolicy) -> list[Asked]:
    """Positions of matches that the policy plays for all snakes, turn by turn; one snake of one team is asked.

    A match ends here when a snake dies: where it reappears, a submission may misread its direction for a turn.
    """
    found: list[Asked] = []
    number = 0
    while len(found) < MOVES:
        arena = BatchArena(1, seed=number)
        arena.start()
        before = None
        for turn in range(MOST_TURNS):
            obs = arena.observe(policy.encoder.name)[0]
            logits = _board_logits(policy, obs)
            snake = number % 2 * TEAM + turn % TEAM
            observation = jidi_observation(to_dict(arena.state[0].numpy()), snake, before)
            found.append(Asked(observation, snake, logits[snake]))
            before = arena.state[0, DIRECTION : DIRECTION + SNAKES].tolist()
            moves = torch.from_numpy(logits.argmax(-1)).to(torch.int8)[None]
            if arena.play_turn(moves).died.any():
                break
        number += 1
    return found[:MOVES]


def _board_logits(policy: ComparedPolicy, obs: torch.Tensor) -> np.ndarray:
    logits = torch.from_numpy(forward(policy.layers, obs.numpy())[:, : len(DIRECTION_NAMES)])
    return to_board_logits(mask_reversal(logits, obs, policy.encoder), obs, policy.encoder).numpy()


def _play(
    path: Path, data: bytes, positions: Sequence[Asked], plan_ms: float | None, uncaged: bool
) -> tuple[list[int | str], list[list[Any]]]:
    """The submission's moves by its policy, and a report of each kind of moves."""
    kinds = ["policy"] if plan_ms is None else ["policy", "match"]
    counts = [len(positions), _planned_moves(plan_ms)][: len(kinds)]
    with tempfile.TemporaryDirectory(prefix="snakes-check-") as name:
        folder = Path(name).resolve()
        (folder / check_harness.FILE).write_bytes(data)
        harness = folder / "harness.py"
        shutil.copyfile(check_harness.__file__, harness)
        requests: list[dict[str, Any]] = [{"seed": 0}]
        expected = [Expected(HELLO, HOST_SECONDS, HOST_SECONDS), Expected(LOADED, LOAD_SECONDS, LOAD_WAIT_SECONDS)]
        seconds = max(MOVE_SECONDS, 4 * (plan_ms or 0) / 1000)
        for kind, count in zip(kinds, counts, strict=True):
            asked = [*((kind, each) for each in positions[:count]), ("report", positions[0])]
            for how, each in asked:
                snake = FIRST_SNAKE_KEY + each.snake
                requests.append({"snakes": [snake], "observation": each.observation | {"asked": how}})
                expected.append(Expected(snake, seconds, WAIT_FACTOR * seconds))
        job = _run(path, harness, requests, expected, uncaged)
    answers = job.answers[2:]
    ends = np.cumsum([count + 1 for count in counts])
    return answers[: counts[0]], [_report(path, answers[end - 1]) for end in ends]


def _run(path: Path, harness: Path, requests: list[dict[str, Any]], expected: list[Expected], uncaged: bool) -> Job:
    try:
        host = start_host(harness, not uncaged)
    except CannotSandbox as error:
        raise UserError(
            f"{path}: this system cannot sandbox it ({error}); it is run to be checked: with --uncaged, with your "
            "rights"
        ) from None
    except Broken as error:
        raise UserError(f"{path}: {error}") from None

    def start() -> MatchProcess:
        process = host.start()
        for request in requests:
            process.post(request)
        return process

    job = Job(start, deque(expected))
    try:
        run_jobs([job], 1)
    finally:
        host.end()
    if len(job.answers) > 1 and isinstance(job.answers[1], str):
        raise UserError(f"{path}: it cannot be loaded: {printable(job.answers[1])}")
    if job.failure is not None:
        raise UserError(f"{path}: {printable(job.failure)}")
    return job


def _report(path: Path, answer: int | str) -> list[Any]:
    try:
        median, longest, plans, replies, failed = json.loads(str(answer).removeprefix("raised Report: "))
        return [float(median), float(longest), int(plans), int(replies), str(failed)]
    except (ValueError, TypeError):
        raise UserError(f"{path}: it disturbs its check: {printable(str(answer))}") from None


def _compare(path: Path, positions: Sequence[Asked], moves: Sequence[int | str], policy: ComparedPolicy) -> None:
    wrong = []
    for number, (each, move) in enumerate(zip(positions, moves, strict=True)):
        if isinstance(move, str):
            raise UserError(f"{path}: move {number + 1}: it {printable(move)}")
        if each.logits[move] < each.logits.max() - TIE:
            wrong.append((number, DIRECTION_NAMES[move], DIRECTION_NAMES[each.logits.argmax()]))
    if wrong:
        number, chosen, wanted = wrong[0]
        raise UserError(
            f"{path}: {len(wrong)} of {len(positions)} moves are not those of {policy.description}; "
            f"the first is move {number + 1}: {chosen}, not {wanted}"
        )

"""Submissions as opponents: the exact dictionary in, one-hot lists out, and a broken one stops nothing."""

import ast
import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.processes import ends
from helpers.submissions import SANDBOXED, Game, children, controller, written

from arena import ArenaError
from arena.jidi import jidi_observation
from arena.rules import SNAKES
from opponents.sandbox.controller import read_move
from opponents.sandbox.side_by_side import WAIT_FACTOR
from opponents.submission import HOPELESS, LIMIT, Submission, SubmissionOptions

GOOD = "def my_controller(observation, action_space, is_act_continuous):\n    return [[0, 0, 0, 1]]\n"
QUICK = 0.2  # seconds for a move of a submission that hangs


UNCAGED = SubmissionOptions(uncaged=True, workers=1)  # for submissions that write into their folder, in turn


@pytest.fixture(autouse=True)
def _no_child_is_left():
    before = children()
    yield
    assert children() <= before


ECHO = controller(
    "with open('seen.txt', 'a') as file:\n    file.write(repr(observation) + '\\n')\nreturn [[0, 1, 0, 0]]"
)


@pytest.mark.parametrize(("matches", "blue"), [(2, False), (1, True)])
def test_the_controller_gets_the_exact_dictionary_for_whole_matches(tmp_path, matches, blue) -> None:
    game = Game(matches, seed=5, blue=blue)
    expected = []
    before: list[list[int] | None] = [None] * matches
    deaths = 0
    with Submission(written(tmp_path, ECHO), options=UNCAGED) as submission:
        assert submission.name == f"{tmp_path.name}/submission.py"
        submission.begin(game.arena, game.seats)
        while not game.arena.events.over.any():
            now = [game.arena.get_match(b) for b in range(matches)]
            for match, last in zip(now, before, strict=True):
                expected += [jidi_observation(match, snake, last) for snake in range(SNAKES)[game.mine]]
            assert (game.turn(submission) == 1).all()
            before = [match["directions"] for match in now]
            deaths += int(game.arena.events.died.sum())
        assert submission.problems == []
        assert submission.forfeited == set()
    seen = [ast.literal_eval(line) for line in (tmp_path / "seen.txt").read_text().splitlines()]
    assert deaths > 0  # so respawned snakes and their directions were among them
    assert seen == expected
    assert all(list(a) == list(b) for a, b in zip(seen, expected, strict=True))


def test_last_direction_is_one_turn_late_and_unset_at_each_start(tmp_path) -> None:
    game = Game()
    with Submission(written(tmp_path, ECHO), options=UNCAGED) as submission:
        submission.begin(game.arena, game.seats)
        for _ in range(3):
            game.turn(submission)
        game.arena.start()  # a new match in the slot, noticed without begin
        game.turn(submission)
        submission.act(game.arena, game.seats[:1], torch.zeros(1, SNAKES, dtype=torch.int8))
    seen = [ast.literal_eval(line)["last_direction"] for line in (tmp_path / "seen.txt").read_text().splitlines()]
    assert [last is None for last in seen] == [True] * 3 + [False] * 6 + [True] * 3 + [False]


COUNTER = controller("global calls\ncalls += 1\nreturn [[int(i == calls % 4) for i in range(4)]]", "calls = 0")


def test_every_match_has_state_of_its_own(tmp_path) -> None:
    game = Game(3)
    with Submission(written(tmp_path, COUNTER), options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        assert game.turn(submission).tolist() == [[1, 2, 3]] * 3
        assert game.turn(submission).tolist() == [[0, 1, 2]] * 3
        game.arena.start(torch.tensor([False, True, False]))
        submission.begin(game.arena, game.seats[3:6])
        assert game.turn(submission).tolist() == [[3, 0, 1], [1, 2, 3], [3, 0, 1]]
        assert submission.problems == []


def test_matches_that_are_over_are_not_asked(tmp_path) -> None:
    game = Game()
    match = game.arena.get_match(0)
    game.arena.set_match(0, match | {"turn": 200})
    with Submission(written(tmp_path, ECHO), options=UNCAGED) as submission:
        submission.begin(game.arena, game.seats)
        game.turn(submission)
    assert not (tmp_path / "seen.txt").exists()


def test_seats_may_be_few_or_none(tmp_path) -> None:
    game = Game(2)
    moves = torch.full((2, SNAKES), 9, dtype=torch.int8)
    with Submission(written(tmp_path, GOOD), options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats[:0])
        submission.act(game.arena, game.seats[:0], moves)
        assert (moves == 9).all()
        submission.act(game.arena, torch.tensor([7, 10], dtype=torch.int32), moves)
    assert moves.tolist() == [[9] * 6, [9, 3, 9, 9, 3, 9]]


def test_helpers_and_weights_beside_it_load_and_the_action_space_is_the_competitions(tmp_path) -> None:
    np.save(tmp_path / "weights.npy", np.array([0, 0, 1, 0]))
    (tmp_path / "search.py").write_text("CHOSEN = 'own helper'\n")  # a name of ours too
    text = controller(
        "assert search.CHOSEN == 'own helper' and is_act_continuous is False\n"
        "assert action_space[0].__class__.__name__ == 'Discrete' and action_space[0].sample() in range(4)\n"
        "assert os.environ['OMP_NUM_THREADS'] == '1' and 'SECRET' not in os.environ\n"
        "return weights[None]",
        "import os, numpy, search\nweights = numpy.load('weights.npy')\n"
        "assert (numpy.load(os.path.join(os.path.dirname(__file__), 'weights.npy')) == weights).all()\n",
    )
    game = Game()
    os.environ["SECRET"] = "1"
    try:
        with Submission(written(tmp_path, text), options=SANDBOXED) as submission:
            submission.begin(game.arena, game.seats)
            assert game.turn(submission).tolist() == [[2, 2, 2]]
            assert submission.problems == []
    finally:
        del os.environ["SECRET"]
    assert not (tmp_path / "__pycache__").exists()


def test_prints_and_edits_of_the_observation_change_nothing(tmp_path) -> None:
    body = (
        "print('x' * 200_000, flush=True)\nprint('y' * 200_000, file=sys.stderr)\nos.write(1, b'z' * 100)\n"
        "with open('seen.txt', 'a') as file:\n    file.write(repr(observation) + '\\n')\n"
        "observation[1].clear()\nobservation[2][0][0] = 99\nobservation.clear()\nreturn [[1, 0, 0, 0]]"
    )
    game = Game()
    with Submission(
        written(tmp_path, controller(body, "import os, sys\nprint('loading')")), options=UNCAGED
    ) as submission:
        submission.begin(game.arena, game.seats)
        match = game.arena.get_match(0)
        for _ in range(2):
            assert game.turn(submission).tolist() == [[0, 0, 0]]
        assert submission.problems == []
    seen = [ast.literal_eval(line) for line in (tmp_path / "seen.txt").read_text().splitlines()]
    assert seen[:3] == [jidi_observation(match, snake, None) for snake in range(3)]


@pytest.mark.parametrize(
    ("answer", "move"),
    [
        ([[0, 0, 1, 0]], 2),
        (((0, 1, 0, 0),), 1),
        ([[0, 1, 1, 0]], 1),
        ([[1.0, 0.0, 0.0, 0.0]], 0),
        (np.array([[0, 0, 0, 1]]), 3),
        ([np.array([0.0, 0.0, 0.0, 1.0])], 3),
        (torch.tensor([[0, 1, 0, 0]]), 1),
        ([[float("nan"), 1, 0, 0]], 1),
    ],
)
def test_what_counts_as_a_move(answer, move) -> None:
    assert read_move(answer) == move


NONSENSE = [
    None,
    1,
    "right",
    [],
    [[]],
    [0, 0, 0, 1],
    [[0, 0, 1]],
    [[0, 0, 0, 0, 1]],
    [[0, 0, 0, 0]],
    [[float("nan")] * 4],
    [["1"] * 4],
    [[0.25] * 4],
    ["0001"],
    [None],
    [0] * 10**6,
    [[[1], [0], [0], [0]]],
    {0: [0, 0, 0, 1]},
    object(),
    np.zeros((1, 4)),
]


@pytest.mark.parametrize("answer", NONSENSE)
def test_what_does_not(answer) -> None:
    assert "instead of [[one-hot of 4]]" in read_move(answer)


BREAKS = {
    "return 1": "returned 1 instead of",
    "raise ValueError('bad\\nluck\\x1b[31m')": "raised ValueError: bad luck?[31m",
    "raise SystemExit(0)": "raised SystemExit: 0",
    "return my_controller(observation, action_space, is_act_continuous)": "raised RecursionError",
    "return bytearray(10**15)": "raised MemoryError",
    "os._exit(3)": "ended its process (exit code 3)",
    "os.kill(os.getpid(), signal.SIGSEGV)": "crashed (signal 11)",
    "os.closerange(0, 100)\nwhile True: pass": "closed or disturbed its pipe",
    "for fd in range(3, 20):\n    with suppress(OSError): os.write(fd, b'\\xff' * 9)\nwhile True: pass": (
        "closed or disturbed its pipe"
    ),
}


@pytest.mark.parametrize("body", BREAKS)
def test_a_move_that_cannot_be_had_is_drawn_and_the_reason_told(tmp_path, body) -> None:
    text = controller(
        f"if observation['controlled_snake_index'] != 3: return [[0, 0, 1, 0]]\n{body}",
        "import os, signal\nfrom contextlib import suppress",
    )
    game = Game(2)
    with Submission(written(tmp_path, text), seconds_per_move=5, options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        for turn in range(1, 3):
            drawn = [game.drawn(b)[1] for b in range(2)]
            assert game.turn(submission).tolist() == [[2, drawn[0], 2], [2, drawn[1], 2]]
            (problem,) = submission.problems
            assert problem.startswith(f"{submission.name}: {BREAKS[body]}")
            assert problem.endswith(f"({2 * turn} x)")
            assert problem.isprintable()
        assert submission.forfeited == set()


def test_a_drawn_move_is_never_the_reversal(tmp_path) -> None:
    game = Game(8)
    with Submission(written(tmp_path, controller("return None")), options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        for _ in range(5):
            directions = torch.tensor([game.arena.get_match(b)["directions"][:3] for b in range(8)])
            assert (game.turn(submission) != directions ^ 1).all()


HANGS = controller("while observation['controlled_snake_index'] == 3: pass\nreturn [[0, 0, 1, 0]]")


def test_a_move_that_hangs_is_stopped_and_the_others_go_on(tmp_path) -> None:
    game = Game(2)
    with Submission(written(tmp_path, HANGS), seconds_per_move=QUICK, options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        drawn = [game.drawn(b)[1] for b in range(2)]
        assert game.turn(submission).tolist() == [[2, drawn[0], 2], [2, drawn[1], 2]]
        assert submission.problems == [f"{submission.name}: took more than {QUICK} s of CPU time and was stopped (2 x)"]
        assert submission.forfeited == set()
        assert (submission.errors, submission.move_times.moves) == (2, 6)
        assert submission.move_times.longest >= QUICK, "the time of a move that was stopped counts"


def test_waiting_has_a_limit_of_its_own(tmp_path) -> None:
    game = Game()
    with Submission(written(tmp_path, controller("time.sleep(60)", "import time")), 0.05, SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        game.turn(submission)
        waited = f"{WAIT_FACTOR * 0.05:g} s"
        assert submission.problems == [f"{submission.name}: gave no answer for {waited} and was stopped (3 x)"]


def test_a_stop_costs_one_matchs_module_and_workers_change_nothing(tmp_path) -> None:
    cell = list(Game(4).arena.get_match(2)["snakes"][0][0])  # only match 2 hangs, on its first turn
    body = f"while observation['controlled_snake_index'] == 3 and observation[2][0] == {cell}: pass\n"
    body += "global calls\ncalls += 1\nmove = (calls + random.randrange(2)) % 4\n"
    body += "return [[int(i == move) for i in range(4)]]"
    path = written(tmp_path, controller(body, "import random\ncalls = 0"))
    played = []
    for workers in (1, 4):
        game = Game(4)
        with Submission(path, QUICK, SubmissionOptions(SANDBOXED.uncaged, workers)) as submission:
            submission.begin(game.arena, game.seats)
            played.append(([game.turn(submission).tolist() for _ in range(6)], submission.problems))
    assert played[0] == played[1]
    assert played[0][1] == [f"{submission.name}: took more than {QUICK} s of CPU time and was stopped (1 x)"]


def test_a_match_with_too_many_problems_is_forfeited_until_the_next_one_starts(tmp_path) -> None:
    game = Game(2)
    start = game.arena.get_match(0)["snakes"][0][0]
    body = f"global bad\nif observation['last_direction'] is None: bad = observation[2][0] == {start}\n"
    body += "return None if bad else [[0, 0, 0, 1]]"
    with Submission(written(tmp_path, controller(body, "bad = False")), options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        for turn in range(5):
            assert submission.forfeited == ({0} if 3 * turn >= LIMIT else set())
            assert game.turn(submission)[1].tolist() == [3, 3, 3]
        assert f"forfeits a match after {LIMIT} problems (1 x)" in submission.problems[1]
        game.arena.start()
        submission.begin(game.arena, game.seats)
        assert game.turn(submission).tolist() == [[3, 3, 3]] * 2
        assert submission.forfeited == set()


def test_one_that_never_answers_forfeits_everything(tmp_path) -> None:
    game = Game(HOPELESS)
    with Submission(
        written(tmp_path, controller("while True: pass")), seconds_per_move=0.02, options=SANDBOXED
    ) as submission:
        submission.begin(game.arena, game.seats)
        drawn = [game.drawn(b) for b in range(HOPELESS)]
        assert game.turn(submission).tolist() == drawn
        assert submission.forfeited == set(range(HOPELESS))
        assert f"forfeits all matches: stopped {HOPELESS} times in a row" in submission.problems[-1]


def test_many_kinds_of_problems_are_kept_short(tmp_path) -> None:
    game = Game(20)
    body = "global calls\ncalls += 1\nraise ValueError(os.getpid(), calls, 'x' * 10**6)"  # each match has its process
    text = controller(body, "import os\ncalls = 0")
    with Submission(written(tmp_path, text), options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        game.turn(submission)
        assert len(submission.problems) < 25
        assert submission.problems[-1].endswith("other problems (40 x)")
        assert max(map(len, submission.problems)) < 400


UNLOADABLE = {
    "def my_controller(:\n": "SyntaxError",
    "import no_such_module_anywhere\n" + GOOD: "ModuleNotFoundError: No module named 'no_such_module_anywhere'",
    "import sys\nsys.exit(1)\n": "SystemExit: 1",
    "import os\nos._exit(4)\n": "ended its process (exit code 4)",
    "open('missing.pth')\n" + GOOD: "FileNotFoundError",
    "\0": "SyntaxError" if sys.version_info >= (3, 11, 4) else "ValueError",
}


@pytest.mark.parametrize("text", UNLOADABLE)
def test_one_that_cannot_be_loaded_forfeits_andrandom_moves_are_played(tmp_path, text) -> None:
    game = Game(2)
    with Submission(written(tmp_path, text), options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        for _ in range(2):
            drawn = [game.drawn(b) for b in range(2)]
            assert game.turn(submission).tolist() == drawn
            assert submission.forfeited == {0, 1}
        (problem,) = submission.problems
        assert f"forfeits all matches: cannot be loaded: {UNLOADABLE[text]}" in problem


def test_loading_has_a_time_limit(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("opponents.submission.LOAD_SECONDS", QUICK)
    game = Game(2)
    with Submission(written(tmp_path, "while True: pass\n"), options=SANDBOXED) as submission:
        submission.act(game.arena, game.seats, torch.zeros(2, SNAKES, dtype=torch.int8))  # without begin, too
        assert submission.forfeited == {0, 1}
        assert f"cannot be loaded: took more than {QUICK} s of CPU time" in submission.problems[0]


def test_one_that_fails_to_load_later_forfeits_only_that_match(tmp_path) -> None:
    text = "import os\nassert not os.path.exists('once')\nopen('once', 'w').close()\n" + GOOD
    game = Game(3)
    with Submission(written(tmp_path, text), options=UNCAGED) as submission:
        submission.begin(game.arena, game.seats)
        drawn = [game.drawn(b) for b in range(3)]
        assert game.turn(submission).tolist() == [[3, 3, 3], *drawn[1:]]
        assert submission.forfeited == {1, 2}
        assert game.turn(submission)[0].tolist() == [3, 3, 3]
        assert submission.problems == [f"{submission.name}: cannot be loaded: AssertionError: (2 x)"]


def test_a_file_without_a_controller_is_the_callers_mistake(tmp_path) -> None:
    game = Game()
    with Submission(written(tmp_path, "my_controller = 3\n"), options=SANDBOXED) as submission:
        with pytest.raises(ArenaError, match=r"submission\.py['\"]: it has no function my_controller\("):
            submission.begin(game.arena, game.seats)
        game.turn(submission)  # whoever goes on all the same is not stopped
        assert submission.forfeited == {0}


def test_a_missing_file_and_a_bad_limit_are_refused_at_once(tmp_path) -> None:
    for path in (tmp_path / "submission.py", tmp_path):
        with pytest.raises(ArenaError, match="there is no such file"):
            Submission(path)
    for seconds in (0, -1, float("nan"), "1", None):
        with pytest.raises(ArenaError, match="seconds_per_move"):
            Submission(written(tmp_path, GOOD), seconds, options=SANDBOXED)


@pytest.mark.parametrize("folder", ["/tmp", "/mnt"])
def test_a_submission_in_a_folder_that_the_new_root_could_cover_is_loaded(folder) -> None:
    if not os.access(folder, os.W_OK):
        pytest.skip(f"{folder} cannot be written")
    if Path.home().is_relative_to(folder):
        pytest.skip(f"{folder} holds the home folder: refused")
    game = Game()
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".py") as file:
        file.write(GOOD)
        file.flush()
        with Submission(Path(file.name), options=SANDBOXED) as submission:
            submission.begin(game.arena, game.seats)
            assert game.turn(submission).tolist() == [[3, 3, 3]]
            assert submission.problems == []


def test_a_submission_in_the_home_folder_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("opponents.submission.why_not_sandboxed", lambda: None)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in (tmp_path / "home", tmp_path):
        folder.mkdir(exist_ok=True)
        with pytest.raises(ArenaError, match="a folder of its own"):
            Submission(written(folder, GOOD))
    (tmp_path / "home" / "rival").mkdir()
    Submission(written(tmp_path / "home" / "rival", GOOD))


needs_pidfd = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches processes in Linux's way")
TELLS = "import os\nwith open('pids.txt', 'w') as file:\n    file.write(str(os.getpid()))\n" + GOOD
BURNS = "import threading\ndef burn():\n    while True: pass\nthreading.Thread(target=burn).start()\n"


@needs_pidfd
@pytest.mark.parametrize("how", ["close", "forgotten"])
def test_the_process_is_gone_at_the_end(tmp_path, how) -> None:
    game = Game()
    submission = Submission(written(tmp_path, BURNS + TELLS), options=UNCAGED)
    submission.begin(game.arena, game.seats)
    game.turn(submission)
    pid = int((tmp_path / "pids.txt").read_text())
    os.kill(pid, 0)
    if how == "close":
        submission.close()
        submission.close()
    else:
        del submission
        gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_closed_one_starts_again_when_asked(tmp_path) -> None:
    game = Game()
    with Submission(written(tmp_path, COUNTER), options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        game.turn(submission)
        submission.close()
        assert game.turn(submission).tolist() == [[1, 2, 3]]
        assert submission.problems == []


@needs_pidfd
def test_one_that_ends_between_turns_is_started_again(tmp_path) -> None:
    game = Game()
    with Submission(written(tmp_path, TELLS), options=UNCAGED) as submission:
        submission.begin(game.arena, game.seats)
        game.turn(submission)
        pid = int((tmp_path / "pids.txt").read_text())
        os.kill(pid, signal.SIGTERM)
        assert ends(pid)
        drawn = game.drawn()
        assert game.turn(submission).tolist() == [[drawn[0], 3, 3]]
        assert submission.problems == [f"{submission.name}: crashed (signal 15) (1 x)"]


def seed_text(tmp_path, seed: int, board: dict | None) -> str:
    """What a submission's generator gives first, in match 0 of this seed, on this board."""
    game = Game(1, seed=seed)
    if board is not None:
        game.arena.set_match(0, board)
    path = written(tmp_path, controller("raise ValueError(DRAWN)", "import random\nDRAWN = random.getrandbits(60)"))
    with Submission(path, options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        game.turn(submission)
        (problem,) = submission.problems
    return problem


def test_what_a_submission_draws_follows_from_what_it_sees_and_not_from_the_key(tmp_path) -> None:
    """Whatever followed from the key would tell the beans to come to one that tries keys."""
    board = Game(1, seed=7).arena.get_match(0)
    assert seed_text(tmp_path, 1, board) == seed_text(tmp_path, 2, board) == (drawn := seed_text(tmp_path, 7, None))
    assert drawn != seed_text(tmp_path, 8, None)


FRAMES = """
frame, names = sys._getframe(), []
while frame:
    names.append(frame.f_code.co_name)
    frame = frame.f_back
raise ValueError(" ".join([*names, *sys.argv, *sys.orig_argv]))
"""


def test_nothing_of_the_hosts_frames_and_words_is_in_reach(tmp_path) -> None:
    game = Game(1)
    with Submission(written(tmp_path, controller(FRAMES, "import sys")), options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        game.turn(submission)
    (problem,) = submission.problems
    seen = "/submission/submission.py" if not SANDBOXED.uncaged else str(tmp_path / "submission.py")
    words = f"my_controller _move answer_requests <module> {seen} {seen}"
    assert problem == f"{submission.name}: raised ValueError: {words} (3 x)"


def test_a_match_does_not_wait_for_ever_for_moves_that_each_come_in_time(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("opponents.submission.MATCH_SECONDS", 0.3)
    game = Game(1)
    path = written(tmp_path, controller("time.sleep(0.04)\nreturn [[0, 1, 0, 0]]", "import time"))
    with Submission(path, options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        while not submission.forfeited:
            assert game.arena.get_match(0)["turn"] < 10
            game.turn(submission)
    (problem,) = submission.problems
    assert problem.endswith("forfeits a match after 0.3 s of waiting for its moves (1 x)")


def test_a_name_is_shown_without_control_characters(tmp_path) -> None:
    folder = tmp_path / "a\x1b[31m\nb"
    folder.mkdir()
    game = Game(1)
    with Submission(written(folder, controller("raise ValueError")), options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        game.turn(submission)
    assert submission.name == "a?[31m?b/submission.py"
    assert all(problem.isprintable() for problem in submission.problems)


def test_load_tells_the_cause_before_any_match(tmp_path) -> None:
    some = dict(list(UNLOADABLE.items())[2:4])
    for text, cause in {**some, "my_controller = 3\n": "it has no function my_controller("}.items():
        with Submission(written(tmp_path, text), options=SANDBOXED) as submission:
            with pytest.raises(ArenaError, match=r"submission\.py['\"]: ") as told:
                submission.load()
            assert cause in str(told.value)
            assert "\n" not in str(told.value)


def test_one_that_was_loaded_before_plays_the_same(tmp_path) -> None:
    moves = []
    for is_loaded in (False, True):
        game = Game(2)
        with Submission(written(tmp_path, GOOD), options=SANDBOXED) as submission:
            if is_loaded:
                submission.load()
            submission.begin(game.arena, game.seats)
            moves.append([game.turn(submission).tolist() for _ in range(3)])
    assert moves[0] == moves[1]


def test_errors_and_times_of_moves_are_counted(tmp_path) -> None:
    text = controller("if observation['controlled_snake_index'] == 3: raise ValueError\nreturn [[0, 0, 0, 1]]")
    game = Game(2)
    with Submission(written(tmp_path, text), options=SANDBOXED) as submission:
        submission.begin(game.arena, game.seats)
        assert (submission.errors, submission.move_times.moves) == (0, 0)
        for _ in range(4):
            game.turn(submission)
        times = submission.move_times
        assert (submission.errors, times.moves) == (8, 2 * 3 * 4)
        assert 0 < times.mean <= times.longest <= times.total

"""train --league: a main team, exploiters of it and of the league, and their frozen copies, trained in rounds.

    <runs_dir>/snakes_3v3/NAME/                        the main team's run, over all rounds
    <runs_dir>/snakes_3v3/NAME/league/league.json      steps, members, results, ratings: see league_record.py
    .../league/members/main_1.safetensors              a frozen member
    .../league/snakes_3v3/main_exploiter_1/            runs of the exploiters, with a log beside each

A round has three steps, one after the other in this process. The main team goes on with its own weights. A new main
exploiter starts from the main team's weights and meets only the main team. The league exploiter starts in the first
round from the main team's weights and meets the league. At the end of a step a copy of its team joins the league and
plays all other members. Everything that a step depends on is on the disk before it starts: the same command goes on
after a kill.
"""

import gc
import re
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

from arena.errors import ArenaError
from marl.arguments import parse_whole_number
from marl.commands import launch_flags
from marl.commands.league_record import LeagueRecord, Pair, Step, read_record
from marl.config.train_config import TrainConfig, read_config
from marl.errors import UserError
from marl.invocation import command, interpreter
from marl.ranks import environment
from marl.storage.checkpoint_finder import episode_of, list_complete
from marl.storage.run_folder import CONFIG, GROUP, newest
from marl.storage.run_names import LAST_RUN, player_name
from marl.storage.run_owner import RunOwner
from marl.training.resume_plan import ResumePlan, plan_resume
from opponents.prioritised import prioritised_shares
from opponents.scheduler import EPISODES

LEAGUE = "--league"
ROUNDS = 4
HELP = f"""League training:
  --league [ROUNDS]           train the team in rounds (default: {ROUNDS}) against itself, the schedule and a league of
                              frozen copies of itself and of exploiters; with --run_name NAME the same command goes on
"""
MAIN, MAIN_EXPLOITER, LEAGUE_EXPLOITER = ROLES = ("main", "main_exploiter", "league_exploiter")
FOLDER, MEMBERS = "league", "members"  # in the main team's run; in the league's folder
SELF_PLAY = 0.3  # of the main team's matches, unless the user says otherwise
MOST_MET = 6  # members that a team meets in a round
LEAST_SHARE = 0.01  # of the matches, for a member that is met
LEAST_PAIRS = 1.5  # of matches, too: rounding never takes all matches of a member
EXPLOITER_SHARE = 0.25  # of the main team's budget, for each of the two exploiters
FINE_TUNING = 5e-4  # highest learning rate of an exploiter that starts from trained weights, as in exploit.py
FEW_MATCHES, MANY_MATCHES = 200, 2_000  # of each pair of members: on a CPU, on a GPU
FRESH = 3_000_017  # added to the seed for the matches among members: no training has seen them
Train = Callable[[ResumePlan], int]  # trains in this process; returns the exit code
EXPLOITER_SEED = 1_000  # added to the seed for exploiters


def split_league_flag(words: Sequence[str]) -> tuple[int | None, list[str]]:
    """The number of rounds, and all other words; None without --league."""
    rounds: int | None = None
    others, rest = list[str](), list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name != LEAGUE:
            others.append(word)
            continue
        text = value if equals else rest.pop(0) if rest and not rest[0].startswith("-") else str(ROUNDS)
        rounds = parse_whole_number(text, least=1)
        if rounds is None:
            raise UserError(f"--league {text}: a whole number of rounds from 1 is needed, or none ({ROUNDS} rounds)")
    return rounds, others


def first_step_words(rounds: int, words: Sequence[str]) -> list[str]:
    """The words of the main team's training in the first round, for --dry_run and --print_config."""
    return [*words, "--self-play", f"{_check(rounds, words).schedule.self_play:g}"]


def train_league(rounds: int, words: Sequence[str], train: Train) -> int:
    """Train all rounds; returns the exit code: 0, or that of a training that was stopped or has failed."""
    config = _check(rounds, words)
    name = config.run_name or f"league_{time.strftime('%Y%m%d_%H%M%S')}"
    words = [*words, *([] if config.run_name else ["--run-name", name])]
    main = newest(config.runs_dir, name) or Path(config.runs_dir) / GROUP / name
    is_new = not main.exists()
    if not is_new and not (main / FOLDER).is_dir():
        raise UserError(
            f"{main} is a run without a league; take another --run_name, and --init_from {main} to start from its team"
        )
    try:
        (main / FOLDER / MEMBERS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make {main / FOLDER}: {error.strerror}; choose another --runs_dir") from None
    with RunOwner() as owner:
        owner.take(main / FOLDER)
        try:
            code = _League(main, config, words, rounds, train).train()
        except (UserError, ArenaError):
            if is_new and not (main / CONFIG).exists():  # nothing was trained: a mistake leaves nothing behind
                shutil.rmtree(main, ignore_errors=True)
            raise
    if code:
        print(f"the league is not done; go on: {command('train', *words, LEAGUE, str(rounds))}", flush=True)
    return code


class _League:
    """The league of one start of the command."""

    def __init__(self, main: Path, config: TrainConfig, words: Sequence[str], rounds: int, train: Train) -> None:
        self._train_here = train
        self.main, self.folder, self.rounds = main, main / FOLDER, rounds
        self.config, self.words = config, list(words)
        self.starts_from_main = config.learner_section == "ppo"  # otherwise exploiters start from new weights
        found = read_record(self.folder)
        self.record = found or self._new_record()
        if found is None:
            self.record.write(self.folder)

    def _new_record(self) -> LeagueRecord:
        config = self.config
        matches = config.evaluation.eval_matches or (FEW_MATCHES if self.device == "cpu" else MANY_MATCHES)
        return LeagueRecord(config.seed + FRESH, matches)

    @property
    def device(self) -> str:
        import torch

        device = self.config.device
        return device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"

    def train(self) -> int:
        """Take the steps that are not done, and print the table; returns the exit code."""
        for number in range(1, self.rounds + 1):
            for role in ROLES:
                code = self.take_step(role, number)
                if code:
                    return code
            self.end_round(number)
        self.print_end()
        return 0

    def take_step(self, role: str, number: int) -> int:
        """Train a team and let its copy join the league, unless that is done; returns the exit code."""
        name, run = f"{role}_{number}", self._run(role, number)
        step = self.record.step(name)
        if step is not None and step.is_done:
            return 0
        if step is None:
            step = Step(name, self._choose_opponents(role, number), _episodes(run))
            self.record.steps.append(step)
            self.record.write(self.folder)
        log = self.folder / f"{role if role != MAIN_EXPLOITER else name}.log"
        rivals = self._describe(role, step)
        print(f"round {number} of {self.rounds}: {name} trains against {rivals}; log in {log}", flush=True)
        code = self._train(role, number, step, log)
        if code:
            return code
        if _episodes(run) == step.first_episode:
            raise UserError(
                f"{name}: an update plays more episodes than its budget in a round; raise --max_episodes or "
                "--max_minutes, or ask for fewer rounds"
            )
        self._join(step, run, best=role == MAIN_EXPLOITER)
        return 0

    def _choose_opponents(self, role: str, number: int) -> dict[str, float]:
        """Member -> share of the matches: the members that the team's newest copy takes fewest points from."""
        if role == MAIN_EXPLOITER:
            return {f"{MAIN}_{number}": 1.0}
        schedule = self.config.schedule
        share = _league_share(self.config) if role == MAIN else 1 - schedule.league_scripted_share
        if role == LEAGUE_EXPLOITER and self.starts_from_main:
            share = 1.0  # a trained team needs no easy opponents
        newest_copy = f"{role}_{number - 1}" if number > 1 else None
        hardness = self.record.hardness_for(newest_copy)
        return prioritised_shares(hardness, schedule.league_power, share, MOST_MET, _least_share(self.config))

    def _train(self, role: str, number: int, step: Step, log: Path) -> int:
        plan = plan_resume(self._words_of(role, number, step))
        until = 1.0 if role == MAIN_EXPLOITER else number / self.rounds
        with open(log, "a") as out, redirect_stdout(out):
            code = self._train_here(replace(plan, until=until))
        if self.device != "cpu":
            gc.collect()  # frees the GPU's memory of this training before the next one
        return code

    def _words_of(self, role: str, number: int, step: Step) -> list[str]:
        """The command line of a step's training: that of the user, and what the step says."""
        opponents = [f"{self.member(name)}:{share:g}" for name, share in step.opponents.items()]
        config, words = self.config, [*self.words, "--resume", "auto"]
        if role == MAIN:
            words += ["--self-play", f"{config.schedule.self_play:g}"]
            return [*words, "--schedule.opponents", ",".join([*config.schedule.opponents, *opponents])]
        is_new = role == MAIN_EXPLOITER  # in each round; the league exploiter goes on
        budget = EXPLOITER_SHARE / (self.rounds if is_new else 1)
        words += ["--runs-dir", str(self.folder), "--run-name", self._run(role, number).name]
        words += ["--seed", str(config.seed + EXPLOITER_SEED + (number if is_new else 0))]
        words += ["--max-episodes", str(max(1, round(budget * (config.schedule.max_episodes or EPISODES))))]
        words += ["--max-minutes", f"{budget * config.max_minutes:.9g}", "--self-play", "0"]
        words += ["--schedule.opponents", ",".join(opponents), "--no-eval-gif"]
        if self.starts_from_main:
            lr = min(FINE_TUNING, config.ppo.lr or FINE_TUNING)
            words += ["--init-from", str(self.member(f"{MAIN}_{number if is_new else 1}")), "--ppo.lr", f"{lr:g}"]
        return [*words, "--eval-opponents", str(self.member(f"{MAIN}_{number}"))]

    def _join(self, step: Step, run: Path, best: bool) -> None:
        """Freeze a copy of the run's team, play its matches against all members, and write all of it down."""
        from marl.networks.policy import describe_actor
        from marl.storage import snapshot
        from marl.storage.saved_player import load_player
        from opponents.match import play

        player = load_player(str(run if best else list_complete(run)[0]))
        about = describe_actor(player.encoder, player.actor.spec)
        snapshot.write(self.member(step.name), dict(player.actor.state_dict()), about)
        members, pairs = self.record.members, []
        for other in members:
            home, away = (snapshot.read(self.member(name), name) for name in (step.name, other))
            results = play(home, away, self.record.matches, self.device, self.record.seed)
            pairs.append(Pair(step.name, other, results.wins, results.draws, results.losses))
        step.is_done = True
        self.record.pairs += pairs
        self.record.write(self.folder)
        table = self.record.table()
        worst = min(members, key=lambda other: self.record.points(step.name, other), default=None)
        share = "" if worst is None else f"; fewest points from {worst}: {self._share(step.name, worst):.1%}"
        print(f"  {step.name} joins: rating {table.ratings[-1]:.0f} ±{table.margins[-1]:.0f}{share}", flush=True)

    def end_round(self, number: int) -> None:
        """Log the ratings of the round; those of the last round of an earlier start once more, in their place."""
        from marl.training.metrics import Metrics

        rounds = self.record.rounds
        if len(rounds) < number:
            rounds.append(self._metrics(number))
            self.record.write(self.folder)
        if len(rounds) == number:
            metrics = Metrics(self.folder, int(rounds[-2]["step"]) if number > 1 else None)
            metrics.log(int(rounds[-1]["step"]), {tag: value for tag, value in rounds[-1].items() if tag != "step"})
            metrics.close()

    def _metrics(self, number: int) -> dict[str, float]:
        """Values of a finished round; the step is the main team's episode."""
        table = self.record.table()
        values: dict[str, float] = {"step": _episodes(self.main), "league/members": len(table.names)}
        for role in ROLES:
            i = table.names.index(f"{role}_{number}")
            rating, margin = float(table.ratings[i]), float(table.margins[i])
            values |= {f"league/rating_{role}": rating, f"league_low/{role}": rating - margin}
            values[f"league_high/{role}"] = rating + margin
        main = f"{MAIN}_{number}"
        values["league/main_vs_worst"] = min(self._share(main, other) for other in table.names if other != main)
        values["league/main_vs_exploiter"] = self._share(main, f"{MAIN_EXPLOITER}_{number}")
        return values

    def print_end(self) -> None:
        """Print the table of the league, and commands for the main team."""
        from marl.commands.league import print_table

        print()
        print_table(self.record.table(), self.record.seed)
        last, limit = f"{MAIN}_{self.rounds}", self.config.schedule.max_episodes or EPISODES
        others = [name for name in self.record.members if name != last]
        worst = min(others, key=lambda other: self.record.points(last, other))
        more = [*self.words, "--max-episodes", str(2 * limit)]
        more += ["--max-minutes", f"{2 * self.config.max_minutes:g}"] if self.config.max_minutes else []
        rows = [
            ("look at it", command("replay", self.main / "best_match.jsonl", "--html", "best_match.html")),
            ("measure it", command("eval", "--home", self.main, "--away", self.member(worst))),
            ("all curves", f"{interpreter()} -m tensorboard.main --logdir {shlex.quote(str(self.main.parent))}"),
            ("go on", command("train", *more, LEAGUE, str(2 * self.rounds))),
        ]
        print()
        for name, text in rows:
            print(f"{name:10}  {text}")

    def member(self, name: str) -> Path:
        """The snapshot of a member."""
        return self.folder / MEMBERS / f"{name}.safetensors"

    def _run(self, role: str, number: int) -> Path:
        """The run folder of a step: the exploiters of the main team have one each, the others one over all rounds."""
        if role == MAIN:
            return self.main
        return self.folder / GROUP / (f"{role}_{number}" if role == MAIN_EXPLOITER else role)

    def _share(self, home: str, away: str) -> float:
        return self.record.points(home, away) / self.record.matches

    def _describe(self, role: str, step: Step) -> str:
        met = [f"{name} {share:.0%}" for name, share in step.opponents.items()]
        if role == MAIN:
            self_play = self.config.schedule.self_play
            met = [*([f"itself {self_play:.0%}"] if self_play else []), *self.config.schedule.opponents, *met]
        is_all = role == MAIN_EXPLOITER or (role == LEAGUE_EXPLOITER and self.starts_from_main)
        return ", ".join([*met, *([] if is_all else ["the schedule"])])


def _check(rounds: int, words: Sequence[str]) -> TrainConfig:
    """The configuration of the main team; a UserError for what does not go with --league."""
    flags, others = launch_flags.split_launch_flags(words)
    if flags or environment.is_rank():
        raise UserError(
            "--league trains in one process; leave out the flags that start ranks, or train past selves in ranks: "
            "--distributed --opponent_difficulty_strategy league"
        )
    given = {word.partition("=")[0] for word in others}
    for flag in ("--resume", "--load-model"):
        if flag in given:
            name = flag.replace("-m", "_m")
            raise UserError(f"{name} does not go with --league; the same --run_name goes on with its league")
    config = read_config(others)
    if config.schedule.self_play == 0 and not given & {"--self-play", "--schedule.self-play"}:
        left = 1 - sum(config.schedule.shares.values())
        config = replace(config, schedule=replace(config.schedule, self_play=min(SELF_PLAY, max(0.0, left / 2))))
    for player in (*config.schedule.shares, *([config.init_from] if config.init_from else [])):
        if LAST_RUN in re.split("[:/]", player) and player_name(player) != player:
            raise UserError(f"{player} would soon be the league's own run; name the run instead: {player_name(player)}")
    if _league_share(config) < _least_share(config):
        raise UserError(
            "--league: self_play, opponents and league_scripted_share leave too few matches for the league; lower one "
            "of them, or raise --matches"
        )
    episodes, needed = config.schedule.max_episodes or EPISODES, round(rounds / EXPLOITER_SHARE)
    if episodes < needed:
        raise UserError(
            f"--league {rounds}: {episodes} episodes are too few for so many rounds; give --max_episodes from {needed}"
        )
    return config


def _league_share(config: TrainConfig) -> float:
    """Share of the main team's matches against members of the league."""
    schedule = config.schedule
    left = 1 - schedule.self_play - sum(schedule.shares.values())
    return max(0.0, left) * (1 - schedule.league_scripted_share)


def _least_share(config: TrainConfig) -> float:
    """The least share of the matches for a member that is met at all."""
    return max(LEAST_SHARE, 2 * LEAST_PAIRS / config.matches if config.matches else 0.0)


def _episodes(run: Path) -> int:
    """Episodes of a run's newest checkpoint; 0 without one."""
    found = list_complete(run)
    return episode_of(found[0]) if found else 0

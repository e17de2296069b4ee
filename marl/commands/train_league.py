"""train --league: a main team, exploiters of it and of the league, and their frozen copies, trained in rounds.

    <runs_dir>/snakes_3v3/NAME/                        the main team's run, over all rounds
    <runs_dir>/snakes_3v3/NAME/league/league.json      steps, members, results, ratings: see train_league_record.py
    .../league/members/main_1.safetensors              a frozen member
    .../league/snakes_3v3/main_exploiter_1/            runs of the exploiters, with a log beside each

A round has three steps, one after the other in this process. The main team goes on with its own weights. A new main
exploiter starts from the main team's weights and meets only the main team. The league exploiter starts in the first
round from the main team's weights and meets the league. At the end of a step a copy of its team joins the league and
plays all other members. Everything that a step depends on is on the disk before it starts: the same command goes on
after a kill.
"""

import re
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from arena.errors import ArenaError
from marl.cli.arguments import flag_names, refuse_flags
from marl.cli.invocation import command, interpreter
from marl.commands.train_argv import LEAGUE, TrainArgv
from marl.commands.train_league_record import LeagueRecord, Pair, Step, read_record
from marl.commands.training_jobs import FINE_TUNING, LIMITS, TrainingJob, exploiter_job
from marl.config.train_config import TrainConfig, read_config
from marl.errors import UserError
from marl.ranks import environment
from marl.storage.checkpoint_finder import episode_of, list_complete
from marl.storage.run_folder import CONFIG, GROUP, newest
from marl.storage.run_names import LAST_RUN, player_name
from marl.storage.run_owner import RunOwner
from opponents.prioritised import prioritised_shares
from opponents.scheduler import EPISODES

MAIN, MAIN_EXPLOITER, LEAGUE_EXPLOITER = ROLES = ("main", "main_exploiter", "league_exploiter")
FOLDER, MEMBERS = "league", "members"  # in the main team's run; in the league's folder
SELF_PLAY = 0.3  # of the main team's matches, unless the user says otherwise
MOST_MET = 6  # members that a team meets in a round
LEAST_SHARE = 0.01  # of the matches, for a member that is met
LEAST_PAIRS = 1.5  # of matches, too: rounding never takes all matches of a member
EXPLOITER_SHARE = 0.25  # of the main team's budget, for each of the two exploiters
EXPLOITER_SEED = 1_000  # added to the seed for exploiters
FEW_MATCHES, MANY_MATCHES = 200, 2_000  # of each pair of members: on a CPU, on a GPU
FRESH = 3_000_017  # added to the seed for the matches among members: no training has seen them


def first_step(argv: TrainArgv) -> TrainArgv:
    """The main team's training in the first round, for --dry_run and --print_config."""
    return argv.with_flags("--self-play", f"{check_league(argv).schedule.self_play:g}")


def train_league(argv: TrainArgv) -> int:
    """Train all rounds; returns the exit code: 0, or that of a training that was stopped or has failed."""
    config = check_league(argv)
    name = config.run_name or f"league_{time.strftime('%Y%m%d_%H%M%S')}"
    argv = argv if config.run_name else argv.with_flags("--run-name", name)
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
            code = League(main, config, argv.training, argv.rounds).train()
        except (UserError, ArenaError):
            if is_new and not (main / CONFIG).exists():  # nothing was trained: a mistake leaves nothing behind
                shutil.rmtree(main, ignore_errors=True)
            raise
    if code:
        print(f"the league is not done; go on: {argv.command()}", flush=True)
    return code


def check_league(argv: TrainArgv) -> TrainConfig:
    """The configuration of the main team; a UserError for what does not go with --league."""
    if argv.launch or environment.is_rank():
        raise UserError(
            "--league trains in one process; leave out the flags that start ranks, or train past selves in ranks: "
            "--distributed --opponent_difficulty_strategy league"
        )
    refuse_flags(argv.training, ("--resume", "--load-model"), LEAGUE, "the same --run_name goes on with its league")
    config = read_config(argv.training)
    if config.schedule.self_play == 0 and not flag_names(argv.training) & {"--self-play", "--schedule.self-play"}:
        left = 1 - sum(config.schedule.shares.values())
        config = replace(config, schedule=replace(config.schedule, self_play=min(SELF_PLAY, max(0.0, left / 2))))
    for player in (*config.schedule.shares, *([config.init_from] if config.init_from else [])):
        if LAST_RUN in re.split("[:/]", player) and player_name(player) != player:
            raise UserError(f"{player} would soon be the league's own run; name the run instead: {player_name(player)}")
    if league_share(config) < least_share(config):
        raise UserError(
            "--league: self_play, opponents and league_scripted_share leave too few matches for the league; lower one "
            "of them, or raise --matches"
        )
    episodes, needed = config.schedule.max_episodes or EPISODES, round(argv.rounds / EXPLOITER_SHARE)
    if episodes < needed:
        raise UserError(
            f"--league {argv.rounds}: {episodes} episodes are too few for so many rounds; "
            f"give --max_episodes from {needed}"
        )
    return config


def league_share(config: TrainConfig) -> float:
    """Share of the main team's matches against members of the league."""
    schedule = config.schedule
    left = 1 - schedule.self_play - sum(schedule.shares.values())
    return max(0.0, left) * (1 - schedule.league_scripted_share)


def least_share(config: TrainConfig) -> float:
    """The least share of the matches for a member that is met at all."""
    return max(LEAST_SHARE, 2 * LEAST_PAIRS / config.matches if config.matches else 0.0)


@dataclass
class League:
    """A league and its steps. A step is that of a role in a round, whose number is from 1."""

    main: Path  # the main team's run
    config: TrainConfig  # of the main team
    flags: tuple[str, ...]  # of the main team's training
    rounds: int

    @cached_property
    def record(self) -> LeagueRecord:
        """What league.json holds; a new one is written."""
        record = read_record(self.folder)
        if record is None:
            few = FEW_MATCHES if self.device == "cpu" else MANY_MATCHES
            record = LeagueRecord(self.config.seed + FRESH, self.config.evaluation.eval_matches or few)
            record.write(self.folder)
        return record

    @property
    def device(self) -> str:
        from opponents.match import choose_device

        return choose_device(self.config.device, [])

    @property
    def folder(self) -> Path:
        """The league's folder."""
        return self.main / FOLDER

    @property
    def starts_from_main(self) -> bool:
        """Whether exploiters start from the main team's weights, otherwise from new ones."""
        return self.config.learner_section == "ppo"

    def member(self, name: str) -> Path:
        """The snapshot of a member."""
        return self.folder / MEMBERS / f"{name}.safetensors"

    def run(self, role: str, number: int) -> Path:
        """The run folder of a step: the exploiters of the main team have one each, the others one over all rounds."""
        if role == MAIN:
            return self.main
        return self.folder / GROUP / (f"{role}_{number}" if role == MAIN_EXPLOITER else role)

    def until(self, role: str, number: int) -> float:
        """Share of its run at which the training of a step ends."""
        return 1.0 if role == MAIN_EXPLOITER else number / self.rounds

    def choose_opponents(self, role: str, number: int) -> dict[str, float]:
        """Member -> share of the matches: the members that the team's newest copy takes fewest points from."""
        if role == MAIN_EXPLOITER:
            return {f"{MAIN}_{number}": 1.0}
        schedule = self.config.schedule
        share = league_share(self.config) if role == MAIN else 1 - schedule.league_scripted_share
        if role == LEAGUE_EXPLOITER and self.starts_from_main:
            share = 1.0  # a trained team needs no easy opponents
        newest_copy = f"{role}_{number - 1}" if number > 1 else None
        hardness = self.record.hardness_for(newest_copy)
        return prioritised_shares(hardness, schedule.league_power, share, MOST_MET, least_share(self.config))

    def job(self, role: str, number: int, opponents: Mapping[str, float]) -> TrainingJob:
        """The training of a step: that of the user, and what the step says."""
        config, run = self.config, self.run(role, number)
        log = self.folder / f"{MAIN if role == MAIN else run.name}.log"
        flags = [*self.flags, "--resume", "auto"]
        members = {str(self.member(name)): share for name, share in opponents.items()}
        if role == MAIN:
            named = [*config.schedule.opponents, *(f"{path}:{share:g}" for path, share in members.items())]
            flags += ["--self-play", f"{config.schedule.self_play:g}", "--schedule.opponents", ",".join(named)]
            return TrainingJob(f"{role}_{number}", flags, run, config, log)
        is_new = role == MAIN_EXPLOITER  # in each round; the league exploiter goes on
        if self.starts_from_main:
            most = FINE_TUNING[config.ppo.optimizer]
            lr = min(most, config.ppo.lr or most)
            flags += ["--init-from", str(self.member(f"{MAIN}_{number if is_new else 1}")), "--ppo.lr", f"{lr:g}"]
        part = EXPLOITER_SHARE / (self.rounds if is_new else 1)
        budget = max(1, round(part * (config.schedule.max_episodes or EPISODES))), part * config.max_minutes
        seed, rival = config.seed + EXPLOITER_SEED + (number if is_new else 0), str(self.member(f"{MAIN}_{number}"))
        return exploiter_job(f"{role}_{number}", flags, members, rival, seed, budget, self.folder, run.name, log)

    def describe(self, role: str, opponents: Mapping[str, float]) -> str:
        """All opponents of a step, in words."""
        met = [f"{name} {share:.0%}" for name, share in opponents.items()]
        if role == MAIN:
            self_play = self.config.schedule.self_play
            met = [*([f"itself {self_play:.0%}"] if self_play else []), *self.config.schedule.opponents, *met]
        is_all = role == MAIN_EXPLOITER or (role == LEAGUE_EXPLOITER and self.starts_from_main)
        return ", ".join([*met, *([] if is_all else ["the schedule"])])

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
        name, run = f"{role}_{number}", self.run(role, number)
        step = self.record.step(name)
        if step is not None and step.is_done:
            return 0
        if step is None:
            step = Step(name, self.choose_opponents(role, number), _episodes(run))
            self.record.steps.append(step)
            self.record.write(self.folder)
        job, rivals = self.job(role, number, step.opponents), self.describe(role, step.opponents)
        print(f"round {number} of {self.rounds}: {name} trains against {rivals}; log in {job.log}", flush=True)
        code = job.train_here(self.until(role, number))
        if code:
            return code
        if _episodes(run) == step.first_episode:
            raise UserError(
                f"{name}: an update plays more episodes than its budget in a round; raise --max_episodes or "
                "--max_minutes, or ask for fewer rounds"
            )
        self._join(step, run, best=role == MAIN_EXPLOITER)
        return 0

    def _join(self, step: Step, run: Path, best: bool) -> None:
        """Freeze a copy of the run's team, play its matches against all members, and write all of it down."""
        from marl.networks.policy import describe_actor
        from marl.storage import snapshot
        from marl.storage.saved_player import load_policy
        from opponents.match import play

        player = load_policy(str(run if best else list_complete(run)[0]))
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
        from marl.metrics.run_metrics import Metrics

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
        more = [*_without_limits(self.flags), "--max-episodes", str(2 * limit)]
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

    def _share(self, home: str, away: str) -> float:
        return self.record.points(home, away) / self.record.matches


def _without_limits(argv: Iterable[str]) -> Iterator[str]:
    """The arguments of a command line without the flags of a training's length and their values."""
    rest, limits = iter(argv), {path.rpartition(".")[2] for path in LIMITS}
    for word in rest:
        flag, is_whole, _ = word.partition("=")
        if flag.startswith("--") and flag.rpartition(".")[2].lstrip("-").replace("-", "_") in limits:
            if not is_whole:
                next(rest, None)
        else:
            yield word


def _episodes(run: Path) -> int:
    """Episodes of a run's newest checkpoint; 0 without one."""
    found = list_complete(run)
    return episode_of(found[0]) if found else 0

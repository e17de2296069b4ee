"""The steps of a league: who meets whom, for how long, from which weights and in which run folder."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from marl.arguments import flag_names, refuse_flags
from marl.commands.exploiters import FINE_TUNING, exploiter_job
from marl.commands.league_record import LeagueRecord
from marl.commands.train_argv import LEAGUE, TrainArgv
from marl.commands.training_jobs import TrainingJob
from marl.config.train_config import TrainConfig, read_config
from marl.errors import UserError
from marl.ranks import environment
from marl.storage.run_folder import GROUP
from marl.storage.run_names import LAST_RUN, player_name
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


@dataclass(frozen=True)
class LeagueSteps:
    """What the command line says of every step. A step is that of a role in a round, whose number is from 1."""

    main: Path  # the main team's run
    config: TrainConfig  # of the main team
    flags: tuple[str, ...]  # of the main team's training
    rounds: int

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

    def choose_opponents(self, record: LeagueRecord, role: str, number: int) -> dict[str, float]:
        """Member -> share of the matches: the members that the team's newest copy takes fewest points from."""
        if role == MAIN_EXPLOITER:
            return {f"{MAIN}_{number}": 1.0}
        schedule = self.config.schedule
        share = league_share(self.config) if role == MAIN else 1 - schedule.league_scripted_share
        if role == LEAGUE_EXPLOITER and self.starts_from_main:
            share = 1.0  # a trained team needs no easy opponents
        newest_copy = f"{role}_{number - 1}" if number > 1 else None
        hardness = record.hardness_for(newest_copy)
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
            lr = min(FINE_TUNING, config.ppo.lr or FINE_TUNING)
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

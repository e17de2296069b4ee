"""The options of a training run: their names, their limits, and names of earlier versions."""

import subprocess
import sys
from dataclasses import replace

import pytest
import yaml
from helpers.command import ROOT

from arena.encoders import ENCODERS
from arena.errors import ArenaError
from marl.config import reader
from marl.config.help import help_of
from marl.config.named_configs import config_names
from marl.config.options import Schema
from marl.config.train_config import CONFIG_VERSION, COUNTERPARTS, NOT_RESUMED, TrainConfig, read_config
from marl.config.values import choices_of
from marl.errors import UserError
from marl.registry import LEARNERS, NETWORKS
from opponents.scheduler import strategies


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        (["--ddpg.tau", "0.5"], "ddpg.tau", 0.5),
        (["--tau", "0.5"], "ddpg.tau", 0.5),
        (["--tau=0.5"], "ddpg.tau", 0.5),
        (["--a_lr", "3e-4"], "ddpg.a_lr", 3e-4),
        (["--a-lr", "3e-4"], "ddpg.a_lr", 3e-4),
        (["--c_lr", "3e-4"], "ddpg.c_lr", 3e-4),
        (["--epsilon", "0.8"], "ddpg.epsilon", 0.8),
        (["--epsilon_speed", "0.999"], "ddpg.epsilon_speed", 0.999),
        (["--batch_size", "64"], "ddpg.batch_size", 64),
        (["--buffer-size", "1e6"], "ddpg.buffer_size", 1_000_000),
        (["--buffer_size", "auto"], "ddpg.buffer_size", None),
        (["--max_episodes", "100_000"], "schedule.max_episodes", 100_000),
        (["--max-episodes", "100000"], "schedule.max_episodes", 100_000),
        (["--enable_opponent_evasion"], "schedule.enable_opponent_evasion", True),
        (["--opponent_evasion_start_episode", "9"], "schedule.opponent_evasion_start_episode", 9),
        (["--save_interval", "7"], "save_interval", 7),
        (["--log_interval", "7"], "log_interval", 7),
        (["--eval_interval", "7"], "evaluation.eval_interval", 7),
        (["--eval_opponents", "level1,evasive"], "evaluation.eval_opponents", ("level1", "evasive")),
        (["--body", "64,32"], "network.body", (64, 32)),
        (["--critic", "team"], "ddpg.critic", "team"),
        (["--check_sync"], "ddp.check_sync", 100),
        (["--check_sync", "1"], "ddp.check_sync", 1),
        (["--timeout", "5"], "ddp.timeout", 5.0),
        (["--backend", "gloo"], "ddp.backend", "gloo"),
        (["--sync-freq", "4"], "ddp.sync_freq", 4),
        (["--lr_scaling", "sqrt"], "ddp.lr_scaling", "sqrt"),
        (["--no-graphs"], "graphs", False),
        (["--compile", "off"], "compile", "off"),
        (["--fused", "true", "--packed=true"], "compile", "auto"),  # what they were by default
        (["--no-mask_reversal"], "mask_reversal", False),
        (["--kind", "cnn"], "network.kind", "cnn"),
        (["--channels", "8,16"], "network.channels", (8, 16)),
        (["--model_size", "huge"], "network.model_size", "huge"),
        (["--messages"], "network.messages", True),
        (["--lstm_size", "64"], "network.lstm_size", 64),
        (["--memory", "64"], "network.lstm_size", 64),
        (["--network.memory", "64"], "network.lstm_size", 64),
        (["--uniform_kl", "0.5"], "ddpg.uniform_kl", 0.5),
        (["--even", "0.5"], "ddpg.uniform_kl", 0.5),
        (["--even", "0.5", "--algo", "ppo_lstm"], "ppo.uniform_kl", 0.5),
        (["--algo", "ppo", "--ppo.even", "0.5"], "ppo.uniform_kl", 0.5),
        (["--preset", "shaped"], "reward.preset", "shaped"),
        (["--zero_sum"], "reward.zero_sum", True),
        (["--self_play", "0.25"], "schedule.self_play", 0.25),
        (["--no-learn_both_sides"], "schedule.learn_both_sides", False),
        (["--league_interval", "7"], "schedule.league_interval", 7),
        (["--league_size", "7"], "schedule.league_size", 7),
        (["--algo", "ppo", "--gamma", "0.5"], "ppo.gamma", 0.5),
        (["--gamma", "0.5", "--algo", "ppo_lstm"], "ppo.gamma", 0.5),
        (["--gamma", "0.5"], "ddpg.gamma", 0.5),
        (["--algo", "ppo_lstm", "--batch_size", "64"], "ppo.batch_size", 64),
        (["--algo", "ppo", "--update_interval", "1e5"], "ppo.update_interval", 100_000),
        (["--algo", "ppo", "--gae_lambda", "0.5"], "ppo.gae_lambda", 0.5),
        (["--algo", "ppo", "--target_kl", "0.1"], "ppo.target_kl", 0.1),
        (["--algo", "ppo", "--lr", "3e-4"], "ppo.lr", 3e-4),
        (["--load_model", "--load_model_run", "2"], "load_model_run", 2),
        *((["--opponent_difficulty_strategy", name], "schedule.strategy", name) for name in strategies()),
        *((["--opponent-difficulty-strategy", name], "schedule.strategy", name) for name in strategies()),
        (["--schedule.strategy", "linear"], "schedule.strategy", "linear"),
    ],
)
def test_names_of_the_command_line(words, path, value) -> None:
    found = read_config(words)
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value
    assert type(found) is type(value)


def test_files_count_less_than_flags_and_earlier_files_less_than_later_ones(tmp_path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("a_lr: 3e-4\nmax_episodes: 10\nddpg:\n  tau: 0.1\n  epsilon: 0.1\n")
    second.write_text("opponent_difficulty_strategy: linear\nddpg: {tau: 0.2, epsilon: 0.2}\n")
    config = read_config(["--tau", "0.3", "--config", str(first), f"--config={second}"])
    assert (config.ddpg.a_lr, config.ddpg.tau, config.ddpg.epsilon) == (3e-4, 0.3, 0.2)  # 3e-4 is text in YAML
    assert (config.schedule.max_episodes, config.schedule.strategy) == (10, "linear")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ddpg:\n  a_lr: 3e-4 # fine\n  c_lr: 3e-4x\n", ("ddpg.c_lr", "'3e-4x'", "a finite number")),
        ("matches: many\n", ("matches", "'many'", "a whole number")),
        ("matches: 2.5\n", ("matches", "2.5", "a whole number")),
        ("wandb: maybe\n", ("wandb", "'maybe'", "true or false")),
        ("a_lr: .inf\n", ("a_lr", "inf", "a finite number")),
        ("ddpg: 3\n", ("section ddpg", "3")),
        ("taus: 3\n", ("unknown key taus", "did you mean")),
        ("ppo: {learning_rate: 3}\n", ("unknown key ppo.learning_rate, did you mean ppo.lr?; known in ppo: ",)),
        ("ddpg: {learning_rate: 3}\n", ("unknown key ddpg.learning_rate; known in ddpg: ",)),
        ("ddpg:\n  matches: 3\n", ("unknown key ddpg.matches",)),
        ("tau: 0.1\nddpg: {tau: 0.2}\n", ("tau", "both set ddpg.tau")),
        ("tau: 0.1\ntau: 0.2\n", ("line 2", "tau is set twice")),
    ],
)
def test_a_wrong_file_is_told_by_name(tmp_path, text, parts) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_config(["--config", str(file)])
    assert "\n" not in str(caught.value)
    for part in (str(file), *parts):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tau", "2"], "ddpg.tau is 2.0; allowed: from 0 to 1"),
        (["--gamma", "-1"], "ddpg.gamma is -1.0; allowed: from 0 to 1"),
        (["--batch_size", "0"], "ddpg.batch_size is 0; allowed: from 1"),
        (["--a_lr", "-1"], "ddpg.a_lr is -1.0; allowed: from 0"),
        (["--timeout", "0.5"], "ddp.timeout is 0.5; allowed: from 1"),
        (["--sync_freq", "0"], "ddp.sync_freq is 0; allowed: from 1"),
        (["--eval_matches", "0"], "evaluation.eval_matches is 0; allowed: from 1"),
        (["--eval_opponents="], "evaluation.eval_opponents is empty"),
        (["--save_interval", "0"], "save_interval is 0; allowed: from 1"),
        (["--seed", "-1"], "seed is -1; allowed: from 0"),
        (["--matches", "3"], "matches is 3; allowed: an even number"),
        (["--episode_length", "100"], "--episode_length is 100; allowed: 200, the game's own length"),
        (["--exact_ranks"], "--exact_ranks is true; allowed: false, the option is gone"),
        (["--exact_ranks", "8"], "--exact_ranks is 8; allowed: false, the option is gone"),
        (["--no-fused"], "--no-fused is false; allowed: true, the option is gone: edits in marl/learners count"),
        (["--packed", "false"], "--packed is false; allowed: true, the option is gone"),
        (["--compile", "fast"], "--compile is 'fast'; allowed: one of auto, on, off"),
        (["--fault_tolerant"], "--fault_tolerant is true; allowed: false, the option is gone: use --max_restarts N"),
        (["--body", "64,0"], "network.body is 64,0; allowed: widths from 1"),
        (["--body", "1000000,8"], "network.body is 1000000,8; allowed: widths from 1 to 65536"),
        (["--buffer_size", "1e15"], "ddpg.buffer_size is 1000000000000000; allowed: from 1 to 1e+10"),
        (["--foes=-1e99"], "reward.foes is -1e+99; allowed: from -100000 to 100000"),
        (["--channels="], "network.channels is ; allowed: widths from 1"),
        (["--lstm_size", "0"], "network.lstm_size is 0; allowed: from 1"),
        (["--memory", "0"], "--memory (now network.lstm_size) is 0; allowed: from 1"),
        (["--even", "-1"], "--even (now ddpg.uniform_kl) is -1.0; allowed: from 0"),
        (["--encoder", "smells"], "--encoder is 'smells'; allowed: one of features, "),
        (["--kind", "rnn"], "--kind is 'rnn'; allowed: one of mlp, cnn"),
        (["--model_size", "big"], "--model_size is 'big'; allowed: one of tiny, small, medium, large, huge, or auto"),
        (["--body", "64,64", "--model_size", "huge"], "network.body and network.model_size both say"),
        (["--kind", "cnn", "--encoder", "features"], "network.kind is cnn, which reads a board; allowed with it"),
        (["--preset", "fame"], "--preset is 'fame'; allowed: one of score, team, win, shaped"),
        (["--algo", "sac"], "--algo is 'sac'; allowed: one of ddpg, maddpg, matd3, ppo, ppo_lstm, mappo, vdn, qmix"),
        (["--algo", "ppo", "--gamma", "2"], "ppo.gamma is 2.0; allowed: from 0 to 1"),
        (["--algo", "ppo", "--clip", "-1"], "ppo.clip is -1.0; allowed: from 0"),
        (["--algo", "ppo", "--epochs", "0"], "ppo.epochs is 0; allowed: from 1"),
        (["--self_play", "2"], "self_play is 2.0; allowed: from 0 to 1"),
        (["--league_size", "0"], "league_size is 0; allowed: at least 1"),
        (["--config_version", "0"], f"config_version is 0; this program reads version {CONFIG_VERSION}"),
        (["--load_model_run_episode", "8"], "load_model_run and load_model_run_episode say what to load"),
        (["--load_model", "--resume", "runs/x"], "load_model and resume runs/x both name a run to start from"),
        (["--lr_scaling", "cubic"], "--lr_scaling is 'cubic'; allowed: one of none, linear, sqrt"),
        (["--config"], "--config needs a file"),
        (["configs/quick.yaml"], "'configs/quick.yaml' belongs to no flag"),
        (
            ["--opponent_difficulty_strategy", "hard"],
            "--opponent_difficulty_strategy is 'hard'; allowed: one of linear, ",
        ),
        (["--max_episodes", "0"], "max_episodes is 0; allowed: at least 1"),
    ],
)
def test_wrong_flags(words, message) -> None:
    with pytest.raises((UserError, ArenaError)) as caught:
        read_config(words)
    assert str(caught.value).startswith(message)


def test_a_body_that_its_model_size_has_may_be_given_again() -> None:
    """As a saved configuration does, in which both stand."""
    assert read_config(["--body", "512,256", "--model_size", "large"]).network.body == (512, 256)


@pytest.mark.parametrize(
    ("words", "weights"),
    [
        (["--preset", "score"], [1, 0, 0, 0, 0, 0, 0, 0]),
        ([], [1, 0.15, 0.15, 0, 0, 0, 0, 0]),
        (["--preset", "win"], [0, 0, 0, 0, 0, 0, 10, 0]),
        (["--preset", "shaped"], [1, 0.15, 0.15, 0.2, 0.5, 0.01, 3, 0]),
        (["--preset", "shaped", "--mates", "0", "--win", "5", "--zero_sum"], [1, 0, 0.15, 0.2, 0.5, 0.01, 5, 1]),
    ],
)
def test_a_preset_is_weights_that_may_be_given_one_by_one(words, weights) -> None:
    assert read_config(words).reward.weights() == weights


def test_a_configuration_comes_back_from_its_file(tmp_path) -> None:
    words = ["--body", "64,32", "--run_name", "x", "--eval_opponents", "level1", "--strategy", "league"]
    words += ["--algo", "ppo_lstm", "--kind", "cnn", "--channels", "8", "--preset", "win", "--clip", "0.3"]
    config = read_config(words)
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(reader.to_dict(config)))
    assert read_config(["--config", str(file)]) == config


def test_a_run_that_goes_on_takes_over_all_but_where_it_was_from(tmp_path) -> None:
    words = ["--tau", "0.3", "--matches", "8", "--device", "cpu", "--run_name", "x", "--runs_dir", "y"]
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(reader.to_dict(read_config([*words, "--load_model"]))))
    config = read_config(["--matches", "4"], file)
    assert (config.ddpg.tau, config.matches) == (0.3, 4)
    fresh = TrainConfig()
    assert all(getattr(config, name) == getattr(fresh, name) for name in NOT_RESUMED)


@pytest.mark.parametrize(
    ("words", "use"),
    [
        (["--lr", "0.5"], "--lr is an option of section ppo, but --algo is ddpg, .* use --a_lr and --c_lr$"),
        (["--ppo.gamma", "0.9"], "--algo is ddpg, which reads section ddpg; use --ddpg.gamma$"),
        (["--algo", "ppo", "--a_lr", "1"], "--a_lr is an option of section ddpg, but --algo is ppo, .* use --lr$"),
        (["--algo", "ppo_lstm", "--c_lr", "1"], "--algo is ppo_lstm, which reads section ppo; use --lr$"),
        (["--algo", "ppo", "--turns", "9"], "use --update_interval$"),
        (["--algo", "ppo", "--epsilon", "0.8"], "use --ppo.entropy$"),
        (["--update_interval", "9"], "use --ddpg.turns$"),
        (["--algo", "qmix", "--lr", "1"], "--algo is qmix, which reads section qlearning; use --q_lr$"),
        (["--algo", "qmix", "--a_lr", "1"], "use --q_lr$"),
        (["--q_lr", "1"], "--q_lr is an option of section qlearning, but --algo is ddpg, .* use --a_lr and --c_lr$"),
        (["--algo", "vdn", "--epochs", "1"], "use --qlearning.updates$"),
        (["--algo", "vdn", "--clip", "1"], "leave it out or choose --algo ppo$"),
        (["--algo", "ppo", "--twin"], "--twin is .*; leave it out or choose --algo ddpg$"),
        (["--clip", "0.1"], "--clip is .*; leave it out or choose --algo ppo$"),
    ],
)
def test_a_flag_that_the_learner_does_not_read(words, use) -> None:
    with pytest.raises(UserError, match=use):
        read_config(words)


def test_a_file_may_hold_options_of_every_learner(tmp_path) -> None:
    file = tmp_path / "both.yaml"
    file.write_text("ppo: {lr: 0.5}\nddpg: {a_lr: 0.25}\n")
    config = read_config(["--config", str(file)])
    assert (config.ppo.lr, config.ddpg.a_lr) == (0.5, 0.25)


def test_counterparts_are_options_of_another_learner() -> None:
    options = Schema(TrainConfig).options
    for path, others in COUNTERPARTS.items():
        assert path in options
        assert all(other in options and options[other].section != options[path].section for other in others)


def test_every_field_says_what_it_is() -> None:
    for option in Schema(TrainConfig).options.values():
        assert help_of(option), option.path


@pytest.mark.parametrize("algo", ["ddpg", "ppo"])
def test_a_run_that_was_saved_with_old_names_goes_on(tmp_path, algo) -> None:
    saved = reader.to_dict(read_config(["--algo", algo]))
    saved |= {"episode_length": 200, "fault_tolerant": False}
    saved["ddp"]["exact_ranks"] = 0
    saved["network"] |= {"memory": 32, "encoder": "turned"}
    saved[algo]["even"] = 0.25
    del saved["network"]["lstm_size"], saved[algo]["uniform_kl"]
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(saved))
    config = read_config(["--seed", "2"], file)
    assert (config.network.lstm_size, getattr(config, algo).uniform_kl, config.seed) == (32, 0.25, 2)
    assert config.network.encoder == ("canonical" if "canonical" in ENCODERS else "turned")
    assert "episode_length" not in reader.to_dict(config)


def test_a_run_that_had_a_removed_option_says_how_to_go_on(tmp_path) -> None:
    saved = reader.to_dict(read_config([]))
    saved["ddp"]["exact_ranks"] = 8
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(saved))
    with pytest.raises(UserError, match=r"config.yaml: ddp.exact_ranks is 8; allowed: false, .*--exact_ranks false"):
        read_config([], file)
    assert read_config(["--exact_ranks", "false"], file) == read_config([])


def test_every_encoder_learner_and_network_can_be_chosen() -> None:
    for path, table in (("network.encoder", ENCODERS), ("algo", LEARNERS), ("network.kind", NETWORKS)):
        assert choices_of(Schema(TrainConfig).options[path].type) == tuple(table)


@pytest.mark.parametrize(
    ("algo", "section", "own"),
    [
        ("ddpg", "ddpg", {"critic": "snake", "twin": False, "policy_delay": 1, "target_noise": 0.0}),
        ("maddpg", "ddpg", {"critic": "team", "twin": False, "policy_delay": 1, "target_noise": 0.0}),
        ("matd3", "ddpg", {"critic": "team", "twin": True, "policy_delay": 2, "target_noise": 0.2}),
        ("ppo", "ppo", {"critic": "snake"}),
        ("ppo_lstm", "ppo", {"critic": "snake"}),
        ("mappo", "ppo", {"critic": "team"}),
        ("vdn", "qlearning", {"mixer": "sum"}),
        ("qmix", "qlearning", {"mixer": "monotonic"}),
    ],
)
def test_the_section_and_the_defaults_of_a_learner(algo, section, own, tmp_path) -> None:
    config = read_config(["--algo", algo])
    assert config.learner_section == section
    assert {name: getattr(getattr(config, section), name) for name in own} == own
    assert read_config(["--algorithm", algo]) == config
    usual = getattr(TrainConfig(), section)
    assert replace(usual, **own) == getattr(config, section), "nothing else differs"
    if algo in config_names():
        assert read_config(["--config", algo]) == config, "the name of the configuration means the same"
    # A file and a flag override what the name brings.
    name, first, second = ("mixer", "sum", "monotonic") if section == "qlearning" else ("critic", "snake", "team")
    file = tmp_path / "mine.yaml"
    file.write_text(f"algo: {algo}\n{section}: {{{name}: {first}}}\n")
    assert getattr(getattr(read_config(["--config", str(file)]), section), name) == first
    assert getattr(getattr(read_config(["--config", str(file), f"--{name}", second]), section), name) == second


def test_reading_a_configuration_does_not_load_torch() -> None:
    code = "import sys; from marl.config.train_config import read_config; "
    code += "read_config(['--encoder', 'planes', '--kind', 'cnn', '--algo', 'ppo']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout == "False\n", done.stderr


def test_submissions_are_trusted_by_the_same_word_as_in_other_commands() -> None:
    assert read_config(["--trust"]) == read_config(["--uncaged"])
    assert read_config(["--trust"]).evaluation.uncaged

"""The help text: every flag with its names, type, purpose and default."""

from helpers.config_example import ALIASES, Config, options_of

from marl.config.help import help_text


def test_help_text():
    lines = help_text(Config, ALIASES, "algo").splitlines()
    assert lines[0] == "  --algo {ddpg,ppo,random}    The learner. (default: ddpg)"
    text = "\n".join(lines)
    for part in (
        "--check_sync [INT]          Compare the ranks every so many updates. (alone: 100, default: 0)",
        "--verbose [BOOL]            (default: false)",
        "--batch_size INT|auto       (default: auto)",
        "--device {cpu,cuda}|auto    (default: auto)",
        "--tags TEXT,...             (default: '')",
        "\nddpg (--algo ddpg):\n  --ddpg.tau, --tau FLOAT     Soft update",
        "\nppo (--algo ppo):\n  --ppo.tau, --tau FLOAT      (default: 0.5)",
        "--ddpg.body, --body INT,...",
        "(default: 128,128)",
        "\nddpg.optimizer:\n  --ddpg.optimizer.lr, --lr FLOAT",
        "--schedule.strategy, --strategy, --opponent_difficulty_strategy\n      {linear,exponential,curriculum,",
        "\nSeveral sections have --tau. Without a section's name such a flag means the section of --algo: ",
        "--algo: ddpg for ddpg;\nppo for ppo.",
    ):
        assert part in text
    assert max(map(len, lines)) <= 110


def test_help_names_every_option_once():
    text = help_text(Config)
    for option in options_of(Config):
        assert sum(line.split()[:1] in ([f"--{option.path}"], [f"--{option.path},"]) for line in text.splitlines()) == 1

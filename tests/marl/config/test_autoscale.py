"""What `auto` becomes on a CPU and on a GPU, and what is refused. No GPU is needed: its memory is made up."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from arena.encoders import ENCODERS
from arena.rules import TEAM
from marl.config import autoscale
from marl.config.autoscale import resolve
from marl.config.learner_configs import DdpgConfig, PpoConfig
from marl.config.sections import MODEL_SIZES, DistributedConfig, NetworkConfig
from marl.config.train_config import TrainConfig, read_config
from marl.errors import UserError
from marl.registry import LEARNERS
from opponents.scheduler import ScheduleConfig

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
PLENTY = 1 << 40


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """A machine with memory in plenty that calculates in bf16; returns what to call to make it another one."""

    def give(free: int, bf16: bool = True) -> None:
        monkeypatch.setattr(autoscale.control_groups, "free_memory", lambda: free)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 2 * free))
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: bf16)
        monkeypatch.setattr(autoscale, "_cpu_has_bf16", lambda: bf16)

    give(PLENTY)
    return give


def chosen(config: TrainConfig) -> dict:
    network, section = config.network, config.learner_section
    names = ("batch_size", "buffer_size", "turns", "updates")
    if section == "ppo":
        names = ("update_interval", "batch_size", "lr")
    found = {"encoder": network.encoder, "body": network.body, "matches": config.matches, "precision": config.precision}
    return found | {name: getattr(getattr(config, section), name) for name in names}


SMALL = {"encoder": "tactical", "body": (128, 128), "matches": 256, "precision": "fp32"}
SMALL |= {"batch_size": 1024, "buffer_size": 1_000_000, "turns": 4, "updates": 1}
LARGE = {"encoder": "tactical_board", "body": (512, 256), "matches": 4096, "precision": "bf16"}
LARGE |= {"batch_size": 16384, "buffer_size": 2_000_000, "turns": 4, "updates": 5}


@pytest.mark.parametrize(("device", "expected"), [(CPU, SMALL), (GPU, LARGE)], ids=["cpu", "gpu"])
def test_what_auto_means(device, expected) -> None:
    assert chosen(resolve(TrainConfig(), device)) == expected


@pytest.mark.parametrize("algo", ["ppo", "ppo_lstm"])
@pytest.mark.parametrize(
    ("device", "world", "expected"),
    [
        (CPU, 1, {"matches": 512, "update_interval": 16 * 512, "batch_size": 6144, "lr": 6e-3}),
        (CPU, 3, {"matches": 170, "update_interval": 16 * 170 * 3, "batch_size": 2040, "lr": 6e-3}),
        (GPU, 1, {"matches": 8192, "update_interval": 16 * 8192, "batch_size": 65536, "lr": 2e-3}),
        (GPU, 8, {"matches": 1024, "update_interval": 16 * 8192, "batch_size": 8184, "lr": 2e-3}),
    ],
)
def test_what_auto_means_for_ppo(device, world, expected, algo) -> None:
    usual = {name: (SMALL if device is CPU else LARGE)[name] for name in ("encoder", "body", "precision")}
    config = resolve(TrainConfig(algo=algo), device, world=world)
    assert chosen(config) == usual | expected
    assert config.schedule.max_episodes == 50_000
    assert resolve(config, device, world=world) == config
    assert config.ddpg == DdpgConfig(), "what is not asked for is left alone"


def test_every_encoder_of_the_table_exists() -> None:
    assert {auto["encoder"] for auto in autoscale.AUTO.values()} <= {*ENCODERS}


def test_there_are_values_for_every_learner_on_every_device() -> None:
    sections = {TrainConfig(algo=algo).learner_section for algo in LEARNERS}
    assert {*autoscale.AUTO} == {(device, section) for device in ("cpu", "cuda") for section in sections}


def test_what_was_asked_of_ppo_is_kept() -> None:
    asked = PpoConfig(update_interval=48, batch_size=7, lr=0.5, uniform_kl=0.25)
    schedule = ScheduleConfig(max_episodes=9)
    found = resolve(TrainConfig(algo="ppo", matches=4, ppo=asked, schedule=schedule), CPU, world=3)
    assert (found.ppo, found.schedule) == (asked, schedule)


@pytest.mark.parametrize("algo", ["ddpg", "ppo"])
@pytest.mark.parametrize(("encoder", "uniform_kl"), [("features", 0.0), ("planes", 0.0), ("canonical", 0.02)])
def test_the_policy_is_held_to_uniform_where_the_encoder_rotates_the_board(encoder, uniform_kl, algo) -> None:
    found = resolve(TrainConfig(algo=algo, network=NetworkConfig(encoder=encoder)), CPU)
    assert getattr(found, algo).uniform_kl == uniform_kl


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize(("size", "body"), MODEL_SIZES.items())
def test_a_model_size_is_a_body(size, body, device) -> None:
    for largest in (False, True):
        config = TrainConfig(network=NetworkConfig(model_size=size), max_utilization=largest)
        assert resolve(config, device).network.body == body


def test_convolutions_read_the_board_on_any_device() -> None:
    assert resolve(TrainConfig(network=NetworkConfig(kind="cnn")), CPU).network.encoder == "planes"


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (CPU, {"body": (256, 256), "matches": 1024, "batch_size": 4096, "buffer_size": 8_000_000}),
        (GPU, {"body": (1024, 512), "matches": 16384, "batch_size": 32768, "buffer_size": 30_000_000}),
    ],
    ids=["cpu", "gpu"],
)
def test_max_utilization_asks_for_the_largest(device, expected) -> None:
    usual = SMALL if device is CPU else LARGE
    assert chosen(resolve(TrainConfig(max_utilization=True), device)) == usual | expected


@pytest.mark.parametrize("algo", LEARNERS)
@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_max_utilization_makes_nothing_smaller(device, algo) -> None:
    usual, largest = (chosen(resolve(TrainConfig(algo=algo, max_utilization=each), device)) for each in (False, True))
    for name in usual.keys() & {"body", "matches", "batch_size", "buffer_size"}:
        assert largest[name] >= usual[name], name


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_choosing_twice_changes_nothing(device) -> None:
    for config in (TrainConfig(), TrainConfig(max_utilization=True)):
        once = resolve(config, device)
        assert resolve(once, device) == once
    assert chosen(resolve(TrainConfig(), device)) == (SMALL if device is CPU else LARGE), "nor the defaults"


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("max_utilization", [False, True])
def test_what_was_asked_for_is_kept(device, max_utilization) -> None:
    asked = {"encoder": "planes", "body": (7,), "matches": 6, "precision": "fp32"}
    asked |= {"batch_size": 48, "buffer_size": 5_000, "turns": 3, "updates": 5}
    config = TrainConfig(
        matches=6,
        precision="fp32",
        max_utilization=max_utilization,
        network=NetworkConfig(encoder="planes", body=(7,)),
        ddpg=DdpgConfig(batch_size=48, buffer_size=5_000, turns=3, updates=5),
    )
    assert chosen(resolve(config, device)) == asked


def test_nothing_else_is_touched() -> None:
    config = TrainConfig(seed=9, ddpg=DdpgConfig(tau=0.3, n_step=5, a_lr=0.1, c_lr=0.2))
    found = resolve(config, CPU)
    assert (
        replace(found.ddpg, batch_size=None, buffer_size=None, turns=None, updates=None, uniform_kl=None) == config.ddpg
    )
    assert replace(found.schedule, max_episodes=None) == config.schedule
    untouched = {"matches": None, "precision": None, "network": config.network, "ddpg": config.ddpg}
    untouched |= {"schedule": config.schedule}
    assert replace(found, **untouched) == config


def test_a_gpu_without_bf16_gets_fp32(memory) -> None:
    memory(PLENTY, bf16=False)
    assert resolve(TrainConfig(), GPU).precision == "fp32"


@pytest.mark.parametrize(("precision", "bf16"), [("fp16", True), ("bf16", False)])
def test_a_precision_that_a_cpu_does_not_have_is_refused_in_a_line(precision, bf16, memory) -> None:
    memory(PLENTY, bf16)
    with pytest.raises(UserError) as error:
        resolve(TrainConfig(precision=precision), CPU)
    assert (
        str(error.value) == f"precision is {precision}, which this CPU does not support; use --precision fp32 or auto"
    )


def test_a_cpu_with_bf16_may_be_asked_for_it() -> None:
    assert resolve(TrainConfig(precision="bf16"), CPU).precision == "bf16"


# --- ranks ------------------------------------------------------------------------------------------------------------

SPLIT = [  # learner, device, ranks -> matches, batch and buffer of a rank
    ("ddpg", CPU, 1, 256, 1024, 1_000_000),
    ("ddpg", CPU, 2, 128, 504, 500_000),
    ("ddpg", CPU, 3, 86, 336, 333_333),
    ("ddpg", CPU, 4, 64, 264, 250_000),
    ("ddpg", CPU, 8, 32, 120, 125_000),
    ("ddpg", CPU, 128, 2, 24, 7_812),
    ("ddpg", GPU, 8, 512, 2040, 250_000),
    ("ppo", CPU, 1, 512, 6144, None),
    ("ppo", CPU, 2, 256, 3072, None),
    ("ppo", CPU, 3, 170, 2040, None),
    ("ppo", CPU, 4, 128, 1536, None),
    ("ppo", CPU, 8, 64, 768, None),
    ("ppo", GPU, 8, 1024, 8184, None),
]


@pytest.mark.parametrize(("algo", "device", "world", "matches", "batch", "buffer"), SPLIT)
def test_automatic_sizes_are_split_over_the_ranks(algo, device, world, matches, batch, buffer) -> None:
    config = resolve(TrainConfig(algo=algo), device, world=world)
    assert (config.matches, getattr(config, algo).batch_size, config.ddpg.buffer_size) == (matches, batch, buffer)
    alone = resolve(TrainConfig(algo=algo), device)
    assert config.matches * world == pytest.approx(alone.matches, rel=0.01)
    if world <= 8:
        assert batch * world == pytest.approx(getattr(alone, algo).batch_size, rel=0.07)
    assert (config.ddpg.turns, config.ddpg.updates) == (alone.ddpg.turns, alone.ddpg.updates)
    if algo == "ppo":
        minibatches = {
            round(3 * c.ppo.update_interval / w / c.ppo.batch_size) for c, w in ((config, world), (alone, 1))
        }
        assert len(minibatches) == 1, "the same updates per rollout"
        assert config.ppo.update_interval == pytest.approx(alone.ppo.update_interval, rel=0.01)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("algo", ["ddpg", "ppo"])
def test_weak_scaling_gives_each_rank_the_sizes_of_one(algo, world) -> None:
    config = TrainConfig(algo=algo, ddp=DistributedConfig(scaling="weak"))
    found, alone = resolve(config, CPU, world=world), resolve(config, CPU)
    assert replace(found, ppo=alone.ppo) == alone
    assert found.ppo.batch_size == alone.ppo.batch_size
    assert autoscale.whole_run_sizes(config, CPU) == {}


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("algo", ["ddpg", "ppo"])
def test_sizes_that_a_user_gives_are_per_rank(algo, world) -> None:
    words = ["--algo", algo, "--matches", "6", "--batch_size", "100"]
    found = resolve(read_config([*words, *(["--buffer_size", "9000"] if algo == "ddpg" else [])]), CPU, world=world)
    assert (found.matches, getattr(found, algo).batch_size) == (6, 100)
    assert found.ddpg.buffer_size == (9000 if algo == "ddpg" else None)


def test_max_utilization_fills_the_device_of_every_rank() -> None:
    assert resolve(TrainConfig(max_utilization=True), GPU, world=8).matches == 16384


def test_more_ranks_than_pairs_of_matches_are_refused_in_a_line() -> None:
    assert resolve(TrainConfig(), CPU, world=128).matches == 2
    with pytest.raises(UserError) as error:
        resolve(TrainConfig(), CPU, world=129)
    assert str(error.value) == (
        "129 ranks cannot share 256 matches, at least 2 each; allowed: up to 128 ranks "
        "(or give --matches, or --scaling weak)"
    )
    assert resolve(TrainConfig(matches=2), CPU, world=129).matches == 2


def test_the_buffer_of_a_rank_is_its_share_of_the_memory_too(memory) -> None:
    memory(400_000 * 118)  # 200,000 transitions in half of it
    assert resolve(TrainConfig(), CPU, sharing=4, world=4).ddpg.buffer_size == 50_000


def test_sizes_of_a_whole_run_are_split_again_over_other_ranks() -> None:
    config = TrainConfig(ddpg=DdpgConfig(batch_size=96))
    sizes = autoscale.whole_run_sizes(config, CPU)
    assert sizes == {"matches": 256, "ddpg.buffer_size": 1_000_000}
    for_three = resolve(config, CPU, world=3)
    for_one = resolve(autoscale.split_again(for_three, sizes, 1), CPU)
    assert (for_one.matches, for_one.ddpg.batch_size, for_one.ddpg.buffer_size) == (256, 96, 1_000_000)


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "row"), [(CPU, 118), (GPU, 1134)], ids=["cpu", "gpu"])
def test_a_buffer_takes_half_of_the_free_memory_at_most(device, row, memory) -> None:
    free = 600_000 * row
    memory(free)
    size = resolve(TrainConfig(), device).ddpg.buffer_size
    assert size == 300_000
    assert size * row <= autoscale.BUFFER_SHARE * free


def test_a_buffer_never_gets_too_small_to_learn_from(memory) -> None:
    memory(1)
    config = resolve(TrainConfig(), CPU)
    assert config.ddpg.buffer_size == (16 + 3 + 1) * 256 * TEAM


def test_memory_does_not_matter_for_a_buffer_that_was_asked_for(memory) -> None:
    memory(1)
    assert resolve(TrainConfig(ddpg=DdpgConfig(buffer_size=900_000)), CPU).ddpg.buffer_size == 900_000


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_step", "matches"), [(1, 2), (3, 256), (5, 10)])
def test_a_buffer_too_small_for_one_target_is_refused_in_a_line(n_step, matches) -> None:
    least = (n_step + 1) * matches * TEAM
    fits = TrainConfig(matches=matches, ddpg=DdpgConfig(n_step=n_step, buffer_size=least))
    assert resolve(fits, CPU).ddpg.buffer_size == least
    with pytest.raises(UserError) as error:
        resolve(replace(fits, ddpg=replace(fits.ddpg, buffer_size=least - 1)), CPU)
    message = str(error.value)
    assert message.startswith(f"ddpg.buffer_size is {least - 1}; allowed: from {least}")
    assert "\n" not in message


def test_a_buffer_has_room_for_teams_on_both_sides() -> None:
    alone = TrainConfig(matches=10, ddpg=DdpgConfig(n_step=1, buffer_size=2 * 10 * TEAM))
    assert resolve(alone, CPU).ddpg.buffer_size == 60
    with pytest.raises(UserError, match="allowed: from 120"):
        resolve(replace(alone, schedule=ScheduleConfig(self_play=0.5)), CPU)


@pytest.mark.parametrize("world", [1, 3])
def test_updates_more_often_than_a_turn_are_refused_in_a_line(world) -> None:
    turn = 4 * world
    fits = TrainConfig(algo="ppo", matches=4, ppo=PpoConfig(update_interval=turn))
    assert resolve(fits, CPU, world=world).ppo.update_interval == turn
    with pytest.raises(UserError) as error:
        resolve(replace(fits, ppo=PpoConfig(update_interval=turn - 1)), CPU, world=world)
    assert str(error.value).startswith(f"ppo.update_interval is {turn - 1}; allowed: from {turn}, one turn of all")
    assert "\n" not in str(error.value)


def test_fp16_cannot_skip_steps() -> None:
    config = TrainConfig(algo="ppo", precision="fp16", ppo=PpoConfig(target_kl=0.1))
    with pytest.raises(UserError, match="target_kl skips steps, which fp16"):
        resolve(config, GPU)
    assert resolve(replace(config, precision="bf16"), GPU).ppo.target_kl == 0.1


@pytest.mark.parametrize(("device", "freq", "updates"), [(CPU, 1, 1), (CPU, 2, 2), (CPU, 8, 8), (GPU, 4, 8)])
def test_updates_are_rounded_up_to_whole_exchanges(device, freq, updates) -> None:
    assert resolve(TrainConfig(ddp=DistributedConfig(sync_freq=freq)), device).ddpg.updates == updates


def test_updates_that_are_no_whole_exchanges_are_refused_in_a_line() -> None:
    config = TrainConfig(ddpg=DdpgConfig(updates=6), ddp=DistributedConfig(sync_freq=4))
    with pytest.raises(UserError) as error:
        resolve(config, CPU)
    assert str(error.value) == "ddpg.updates is 6; allowed with ddp.sync_freq 4: a multiple of 4"
    fits = replace(config, ddpg=DdpgConfig(updates=8))
    assert resolve(fits, CPU).ddpg.updates == 8


# --- the files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "device"), [("quick", CPU), ("gpu", GPU)])
def test_a_default_written_out_is_the_default(name, device) -> None:
    """configs/quick.yaml is what a CPU does without a file; configs/gpu.yaml what a GPU does."""
    written = read_config(["--config", str(CONFIGS / f"{name}.yaml")])
    assert resolve(written, device) == resolve(TrainConfig(), device)


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_resolves(path, device) -> None:
    assert None not in chosen(resolve(read_config(["--config", str(path)]), device)).values()

"""What TensorBoard says about a run beside its curves, read back from the event files of a training."""

import pytest
from helpers.training import TINY, TINY_ANY, here, the_run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG, parse_session_start_info_plugin_data

from marl.learners.ddpg import Ddpg
from marl.learners.ppo import Ppo
from marl.learners.q_learning import QLearning
from marl.metrics.run_texts import describe_tag, flat_config, layout

EVERY_CYCLE = ["--log_interval", "1", "--eval_interval", "auto"]


@pytest.fixture(scope="module", params=["ddpg", "ppo"])
def trained(request, tmp_path_factory):
    """The learner, the folder and TensorBoard's view of a run."""
    folder = tmp_path_factory.mktemp(request.param)
    words = TINY if request.param == "ddpg" else [*TINY_ANY, "--algo", "ppo"]
    done = here(*words, *EVERY_CYCLE, "--runs_dir", folder)
    assert done.returncode == 0, done.stderr
    run = the_run(folder)
    return request.param, run, EventAccumulator(str(run), size_guidance={"tensors": 0}).Reload()


def test_every_tag_has_a_description(trained) -> None:
    _, _, events = trained
    tags = events.Tags()["scalars"]
    assert len(tags) > 20
    for tag in tags:
        assert events.SummaryMetadata(tag).summary_description == describe_tag(tag) != "", tag


def test_what_the_learners_log(trained) -> None:
    learner, _, events = trained
    tags = set(events.Tags()["scalars"])
    both = {"policy/entropy", "grad_norm/actor", "lr/actor", "match/deaths", "match/length", "updates/skipped"}
    ppo = {"losses/policy", "losses/value", "policy/kl", "policy/clip_fraction", "value/explained_variance"}
    ddpg = {"losses/actor", "losses/critic", "value/mean_q", "grad_norm/critic", "lr/critic", "train/epsilon"}
    own, other = (ppo, ddpg) if learner == "ppo" else (ddpg, ppo)
    assert both | own <= tags
    assert not other & tags
    for event in events.Scalars("match/length"):
        assert 3 <= event.value < 60
    for event in events.Scalars("match/deaths"):
        assert 0 <= event.value <= 600
    if learner == "ppo":
        assert all(-10 < event.value <= 1 for event in events.Scalars("value/explained_variance"))


def test_a_tag_has_one_meaning() -> None:
    shared = {*Ddpg.LOGGED, *Ddpg.MEASURED} & {*Ppo.LOGGED, *Ppo.MEASURED}
    assert shared == {"policy/entropy", "grad_norm/actor", "updates/skipped"}
    of_q = {*QLearning.LOGGED, *QLearning.MEASURED}
    assert of_q & {*Ddpg.LOGGED, *Ppo.LOGGED} == {"updates/skipped"}
    assert all(describe_tag(tag) for tag in of_q)


def test_evaluations_begin_before_the_first_update_and_have_intervals(trained) -> None:
    _, _, events = trained
    shares, low, high = (events.Scalars(tag) for tag in ("eval/win_rate_level0", "eval_low/level0", "eval_high/level0"))
    assert shares[0].step == 0
    assert shares[-1].step >= 16
    assert 2 <= len(shares) <= 11
    assert all(a.value <= b.value <= c.value for a, b, c in zip(low, shares, high, strict=True))


def test_the_configuration_is_in_hparams_and_text(trained) -> None:
    learner, _, events = trained
    content = events.SummaryMetadata(SESSION_START_INFO_TAG).plugin_data.content
    hparams = parse_session_start_info_plugin_data(content).hparams
    assert hparams["algo"].string_value == learner
    assert hparams["matches"].number_value == 8
    assert {name.partition(".")[0] for name in hparams} & {"ddpg", "ppo"} == {learner}
    assert "runs_dir" not in hparams
    texts = {
        tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode()
        for tag in ("run/command", "run/config", "run/versions", "run/start")
    }
    assert texts["run/command"].startswith("    snakes train --config ")
    assert "    matches: 8" in texts["run/config"]
    assert "| torch | " in texts["run/versions"]
    assert "- world_size: 1" in texts["run/start"]
    assert events.SummaryMetadata("run/config").plugin_data.plugin_name == "text"


def test_charts_with_several_curves(trained) -> None:
    _, _, events = trained
    (event,) = events.Tensors("custom_scalars__config__")
    layout = Layout.FromString(event.tensor_proto.string_val[0])
    charts = {chart.title: chart for category in layout.category for chart in category.chart}
    assert list(charts["evaluation"].multiline.tag) == ["eval/win_rate_.*"]
    (series,) = charts["evaluation against level0, 95 %"].margin.series
    assert {series.value, series.lower, series.upper} <= set(events.Tags()["scalars"])
    assert len(charts) == sum(len(category.chart) for category in layout.category), "no title twice"


def test_tensorboard_lists_a_run_once(trained) -> None:
    _, run, events = trained
    assert {file.parent for file in run.parent.rglob("*tfevents*")} == {run}
    assert [event.step for event in events.Scalars("by_env_steps/eval/points")][-1] > 200


def test_charts_of_runs_with_other_opponents_are_shown_once() -> None:
    """TensorBoard merges the layouts of all runs: charts that are not equal are shown beside each other."""
    first, second = (
        Layout.FromString(layout(names).tensor.string_val[0]) for names in (("level0", "level2"), ("level2", "level4"))
    )
    titles = [
        chart.title for chart in {str(each): each for of in (first, second) for each in of.category[0].chart}.values()
    ]
    assert sorted(titles) == sorted({*titles})
    assert len(titles) == 2 + 3


def test_options_by_path() -> None:
    config = {"seed": 1, "runs_dir": "runs", "ppo": {"lr": 1.0}, "ddpg": {"tau": 2.0}, "ddp": {"sync_freq": 1}}
    assert flat_config(config, "ppo") == {"seed": 1, "ppo.lr": 1.0, "ddp.sync_freq": 1}

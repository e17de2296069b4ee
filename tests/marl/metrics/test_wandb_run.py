"""Weights & Biases: what is sent, and mistakes in one line. The package itself is tested in its offline mode."""

import sys
import types

import pytest
from helpers.training import TINY, finish, forked, the_run

from arena.extras import install_hint
from marl.errors import UserError
from marl.metrics.run_metrics import Metrics

GIF = b"GIF89a\x04\x00\x03\x00"  # the head of a file: 4 x 3 pixels


class FakeWandb(types.ModuleType):
    """Remembers what was sent."""

    def __init__(self):
        super().__init__("wandb")
        self.starts, self.sent, self.finished, self.summary = [], [], 0, {}

    def init(self, **options):
        self.starts.append(options)
        return self

    def define_metric(self, name, step_metric):
        self.axis = (name, step_metric)

    def Video(self, data, format):
        return format, data.read()

    def log(self, values):
        self.sent.append(values)

    def finish(self):
        self.finished += 1


def test_wandb_gets_the_same_values(tmp_path, monkeypatch):
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    sink = Metrics(tmp_path, wandb_project="snakes", config={"ppo.lr": 0.003})
    sink.log(10, {"loss": 0.5})
    sink.animation("eval/best_match", GIF, 10)
    sink.summarise({"best_points": 0.75})
    sink.close()
    sink.close()
    assert wandb.sent == [{"episode": 10, "loss": 0.5}, {"episode": 10, "eval/best_match": ("gif", GIF)}]
    assert wandb.summary == {"best_points": 0.75}
    assert wandb.starts[0]["config"] == {"ppo.lr": 0.003}
    assert wandb.axis == ("*", "episode")
    assert wandb.finished == 1
    Metrics(tmp_path, resume_at=10, wandb_project="snakes")
    Metrics(tmp_path, wandb_project="snakes")
    first, resumed, new = wandb.starts
    assert (first["project"], first["name"], first["dir"]) == ("snakes", tmp_path.name, str(tmp_path))
    assert first["id"] == resumed["id"] != new["id"]


@pytest.mark.parametrize("module", [None, types.ModuleType("wandb")], ids=["missing", "empty folder"])
def test_wandb_asked_for_and_not_installed(tmp_path, monkeypatch, module):
    monkeypatch.setitem(sys.modules, "wandb", module)
    with pytest.raises(UserError) as error:
        Metrics(tmp_path, wandb_project="snakes")
    assert str(error.value).endswith(install_hint("wandb"))
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
    Metrics(tmp_path).log(1, {"a": 1})  # and nothing breaks without it


def test_wandb_that_does_not_let_us_in(tmp_path, monkeypatch):
    wandb = FakeWandb()

    def refuse(**_options):
        raise RuntimeError("api_key not configured\nTraceback ...")

    wandb.init = refuse
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    with pytest.raises(UserError, match="api_key not configured; try `wandb login`") as error:
        Metrics(tmp_path, wandb_project="snakes")
    assert "\n" not in str(error.value)


def test_a_training_in_the_offline_mode_of_the_real_package(tmp_path):
    pytest.importorskip("wandb", reason="wandb is not installed")
    words = [*TINY, "--wandb", "--eval_gif", "--run_name", "team", "--runs_dir", tmp_path]
    settings = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
    with forked(words, **settings) as process:
        done = finish(process)
    assert done.returncode == 0, done.stderr
    run = the_run(tmp_path)
    (offline,) = (run / "wandb").glob("offline-run-*")
    assert (run / "wandb_id").read_text().strip() in offline.name
    sent = next(offline.glob("*.wandb")).read_bytes()  # records, not compressed
    for name in ("losses/critic", "eval/win_rate_level0", "eval/best_match", "ddpg.tau", "best_points"):
        assert name.encode() in sent, name
    assert list((offline / "files" / "media" / "videos").rglob("*.gif"))

"""The best match of an evaluation as a picture that moves, in TensorBoard."""

import dataclasses
import io

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from arena.replay import Replay
from marl.metrics.run_metrics import Metrics
from marl.training.evaluation import Evaluation
from opponents.match import play


def test_the_best_match_is_a_gif_in_tensorboard(tmp_path):
    results = play("level1", "level0", 2, seed=4)
    replay = Replay.from_actions(4, 0, None, [[0] * 6] * 6, red="level1", blue="level0")
    evaluation = Evaluation({"level0": dataclasses.replace(results, replays={"best": replay})})
    Metrics(tmp_path).animation("eval/best_match", evaluation.best_gif(), 30)
    events = EventAccumulator(str(tmp_path), size_guidance={}).Reload()
    (event,) = events.Images("eval/best_match")
    with Image.open(io.BytesIO(event.encoded_image_string)) as image:
        assert (image.format, image.n_frames) == ("GIF", 7)
        assert (event.step, event.width, event.height) == (30, *image.size)


def test_an_evaluation_that_was_not_recorded_has_none():
    assert Evaluation({"level0": play("level1", "level0", 2, seed=4)}).best_gif() is None

"""What a training loads before it begins. The server of forking.py imports this: nothing here may start a thread,
which a fork does not take along."""

import gc

import tensorboard.plugins.hparams.metadata  # noqa: F401
import torch._dynamo
import torch.distributed.elastic.multiprocessing
import torch.distributed.launcher.api
import torch.distributed.nn
import torch.utils.tensorboard  # noqa: F401

import marl.commands.train
import marl.learners.ppo_lstm
import marl.pictures.learning_curve
import marl.training.report
import marl.training.trainer  # noqa: F401
from helpers import compile_in_turn
from helpers.training_states import small_state
from opponents.match import play

compile_in_turn.install()
play("level0", "level1", 1, record=True)  # one match alone: by the serial loops
# The loops of a training, without a backward pass: with a GPU that would start threads.
state = small_state()
state.rollout.start(state.learner.act)
state.rollout.play_turn(state.learner.act)
del state
gc.collect()
gc.freeze()  # collections in forked processes leave these objects alone: their memory stays shared

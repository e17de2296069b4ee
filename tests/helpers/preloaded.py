"""What a training loads before it begins. The server of forking.py imports this: nothing here may start a thread,
which a fork does not take along."""

import torch._dynamo
import torch.distributed.elastic.multiprocessing
import torch.distributed.launcher.api
import torch.distributed.nn
import torch.utils.tensorboard  # noqa: F401

import marl.training.report
import marl.training.trainer  # noqa: F401
from arena import BatchArena
from helpers import compile_in_turn
from opponents.match import play

compile_in_turn.install()
play("level0", "level1", 1, record=True)  # one match alone: by the serial loops
BatchArena(1).observe("features")

"""What a training loads before it begins. The server of forking.py imports this: nothing here may start a thread,
which a fork does not take along."""

import gc

import tensorboard.plugins.hparams.metadata  # noqa: F401
import torch._dynamo
import torch.distributed.elastic.multiprocessing
import torch.distributed.launcher.api
import torch.distributed.nn
import torch.utils.tensorboard  # noqa: F401
from torch.backends import mkldnn

import marl.commands.train
import marl.learners.ppo_lstm
import marl.pictures.learning_curve
import marl.training.summary
import marl.training.trainer  # noqa: F401
from helpers import compile_in_turn
from helpers.command import ROOT
from helpers.training_states import small_state
from marl.fast.blas import is_usable
from marl.ranks.shared_memory import load_kernels
from opponents.match import play

compile_in_turn.install()
play("level0", "level1", 1, record=True)  # one match alone: by the serial loops
# The loops and compiled updates of small trainings: a forked process would take 0.15 s to load them. No backward pass
# by torch: where there is a GPU it would start threads.
onednn, mkldnn.enabled = mkldnn.enabled, False
for algo in ("ddpg", "ppo"):
    state = small_state("--config", str(ROOT / "configs" / "smoke.yaml"), "--algo", algo, "--body", "32,32")
    state.rollout.start(state.learner.act)
    learner = state.learner
    for _ in range(2):
        learner.begin_round()
        state.rollout.play_turns(learner.turns, learner.act)
    if is_usable():  # the passes alone: the seam would compare them with autograd's gradients
        items = learner.sampler.draw() if algo == "ddpg" else learner._shuffler.shuffle()[: learner.minibatches.each]
        learner.gradients.__self__._passes.gradients(items)
    del state, learner
mkldnn.enabled = onednn
load_kernels()  # of sums over ranks
gc.collect()
gc.freeze()  # collections in forked processes leave these objects alone: their memory stays shared

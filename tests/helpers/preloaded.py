"""What a training loads before it begins. The server of forking.py imports this: nothing here may start a thread,
which a fork does not take along."""

import gc

import PIL.PngImagePlugin  # noqa: F401
import tensorboard.plugins.hparams.metadata  # noqa: F401
import torch._dynamo
import torch.distributed.elastic.multiprocessing
import torch.distributed.launcher.api
import torch.distributed.nn
import torch.utils.serialization.config
import torch.utils.tensorboard  # noqa: F401
from torch.backends import mkldnn

import marl.commands.train
import marl.learners.ppo_lstm
import marl.learners.q_learning
import marl.pictures.learning_curve
import marl.ranks.placement
import marl.ranks.startup
import marl.training.compile_ahead
import marl.training.cpu_setup
import marl.training.summary
import marl.training.trainer  # noqa: F401
from helpers import compile_in_turn
from helpers.command import ROOT
from helpers.training_states import CPU, small_state
from marl.config.sections import EvalConfig
from marl.fast.blas import is_usable
from marl.ranks.process_group import Solo
from marl.ranks.shared_memory import load_kernels
from marl.training.evaluation import evaluate
from opponents.match import play

EVALUATED = EvalConfig(eval_matches=1, eval_opponents=("level0",), eval_gif=False)

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
    evaluate(learner.actor, state.rollout.encoder, EVALUATED, Solo(CPU), seed=1, record=True)
    del state, learner
mkldnn.enabled = onednn
load_kernels()  # of sums over ranks
gc.collect()
gc.freeze()  # collections in forked processes leave these objects alone: their memory stays shared

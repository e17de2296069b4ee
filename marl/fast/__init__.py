"""What computes the same as the text of learners and networks, faster. seam.py decides; learners know nothing of it.

On a CPU: dense networks without autograd, in compiled loops; players and comparisons use those of networks alone
(dense_pass.py, policy_kernels.py). On a GPU: the text itself, compiled by torch. The former may import
marl.networks and all below it, the rest marl.learners, too. Files *_kernels.py import little: an edit of a file
that they do not import does not compile them again (arena/jit.py).
"""

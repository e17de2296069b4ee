"""What computes the same as the text of the learners, faster. seam.py decides; nothing else imports from here.

On a CPU: dense networks without autograd, in compiled loops. On a GPU: the text itself, compiled by torch.
"""

"""torch's Adam without torch's compiler around it.

The methods of torch's optimizers import torch.compile's machinery (torch._dynamo, sympy) at their first call, only to
keep it away from them: 1.6 s at every start. These are the same methods without that wrapper.
"""

import inspect
from collections.abc import Sequence

import torch


class Adam(torch.optim.Adam):
    """Steps, states and files are those of torch.optim.Adam."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)
    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)

    @torch.no_grad()
    def step_directly(self, found_inf: torch.Tensor) -> None:
        """`step` on a CPU: the same kernels in the same order, without torch's checks. Does nothing if found_inf is 1.

        torch's own takes 400 us for a network of six tensors, of which the kernels are 100 us.
        """
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            states = [self.state[parameter] for parameter in parameters]
            if not all(states):  # the first step makes them
                self.found_inf = found_inf  # read by torch's step, declared nowhere
                self.step()
                return
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                parameters,
                [parameter.grad for parameter in parameters],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                amsgrad=False,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
                grad_scale=None,
                found_inf=found_inf,
            )
            torch._foreach_sub_(steps, [found_inf] * len(steps))


@torch.no_grad()
def clip_directly(parameters: Sequence[torch.Tensor], max_norm: float) -> torch.Tensor:
    """torch.nn.utils.clip_grad_norm_ on a CPU: the same kernels, without what torch groups and checks before."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm

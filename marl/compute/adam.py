"""torch's Adam without torch's compiler around it.

The methods of torch's optimizers import torch.compile's machinery (torch._dynamo, sympy) at their first call, only to
keep it away from them: 1.6 s at every start. These are the same methods without that wrapper.
"""

import inspect

import torch


class Adam(torch.optim.Adam):
    """Steps, states and files are those of torch.optim.Adam."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)
    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)

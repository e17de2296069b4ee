"""The sandbox: the processes in which submissions run, and what keeps them from the rest of the machine.

`process.py` and `side_by_side.py` are the arena's side; `environment.py` says which variables reach the other one, and
`protocol.py` what passes between them. `plain_host.py` and `plain_child.py` stand in where the system has no sandbox.
`host.py` is the program of the sandbox: it locks itself in (`namespaces.py`) and starts one process per match
(`controller.py`). All of them have limits (`limits.py`) and a filter of system calls (`syscall_filter.py`, with
`syscall_table.py`). The sandbox's side may import the standard library, this package and `opponents/processes.py` only.
"""

"""The command line: main.py finds the command, parses its flags, and reports a mistake in one line.

Here belongs also what commands and messages share: value types of flags (arguments), commands that can be pasted
(invocation), plurals and durations (wording), the bar of long work (progress_bar), errors of the machine. All but
main.py imports only marl.errors, so that every package may use it.
"""

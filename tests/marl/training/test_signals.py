"""Signals that stop a training."""

import signal
import threading

from marl.training.signals import stop_on_signals


def test_in_a_thread_of_the_caller_signals_stay_the_callers() -> None:
    before, during = signal.getsignal(signal.SIGTERM), []

    def train() -> None:
        with stop_on_signals(lambda number: None):
            during.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert during == [before]

"""SIGHUP is an orderly stop, except under nohup."""

from __future__ import annotations

import signal

from ottla.process.stop_signals import stop_signals


def test_under_nohup_the_end_of_the_terminal_is_not_heard() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert stop_signals() == {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert stop_signals() == {signal.SIGTERM, signal.SIGINT}
    finally:
        signal.signal(signal.SIGHUP, before)

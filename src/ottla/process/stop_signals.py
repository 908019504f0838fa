"""The signals that ask for an orderly stop."""

from __future__ import annotations

import signal


def stop_signals() -> set[signal.Signals]:
    """SIGTERM, Ctrl-C and the end of the terminal, which whoever uses `nohup` does not want to
    hear of."""
    heard = {signal.SIGTERM, signal.SIGINT}
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        heard.add(signal.SIGHUP)
    return heard

"""What log files look like."""

import logging

from ottla.process.logs import LINE, TIME, LineFormatter


def test_every_line_of_a_message_is_a_line_of_the_log():
    record = logging.LogRecord("who", logging.INFO, "", 0, "%s", ("a-0: one\na-1: two",), None)
    first, second = LineFormatter(LINE, TIME).format(record).splitlines()
    assert first.startswith("[2") and first.endswith("INFO a-0: one (who)")
    assert second == first.replace("a-0: one", "a-1: two")


def test_one_line_stays_as_it_is():
    record = logging.LogRecord("who", logging.WARNING, "", 0, "100%%", (), None)
    assert LineFormatter(LINE, TIME).format(record).endswith(" WARN 100%% (who)")

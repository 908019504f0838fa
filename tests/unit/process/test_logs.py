"""What log files look like."""

import logging
import sys

from ottla.process.logs import LINE, TIME, LineFormatter, LogFile, leave_stderr


def test_every_line_of_a_message_is_a_line_of_the_log():
    record = logging.LogRecord("who", logging.INFO, "", 0, "%s", ("a-0: one\na-1: two",), None)
    first, second = LineFormatter(LINE, TIME).format(record).splitlines()
    assert first.startswith("[2") and first.endswith("INFO a-0: one (who)")
    assert second == first.replace("a-0: one", "a-1: two")


def test_one_line_stays_as_it_is():
    record = logging.LogRecord("who", logging.WARNING, "", 0, "100%%", (), None)
    assert LineFormatter(LINE, TIME).format(record).endswith(" WARN 100%% (who)")


def test_a_full_disk_is_told_once_and_lines_come_again(tmp_path, capsys):
    path = tmp_path / "broker-0.log"
    path.symlink_to("/dev/full")
    handler = LogFile(path, delay=True)
    record = logging.LogRecord("who", logging.INFO, "", 0, "x", (), None)
    for _ in range(3):
        handler.emit(record)
    told = f"{path}: No space left on device; log lines are left out\n"
    assert capsys.readouterr().err == told
    path.unlink()
    handler.emit(record)
    handler.emit(record)
    handler.close()
    assert path.read_text() == "x\nx\n"
    assert capsys.readouterr().err == f"{path}: written again; 3 lines are missing\n"


def test_a_mistake_in_a_line_shows_where(tmp_path, capsys):
    handler = LogFile(tmp_path / "a.log", delay=True)
    handler.emit(logging.LogRecord("who", logging.INFO, "", 0, "%d", ("x",), None))
    handler.close()
    assert "Traceback" in capsys.readouterr().err


def test_a_process_in_the_background_leaves_stderr(tmp_path):
    root, kept = logging.getLogger(), LogFile(tmp_path / "a.log", delay=True)
    on_stderr = logging.StreamHandler(sys.stderr)
    root.addHandler(kept)
    root.addHandler(on_stderr)
    try:
        leave_stderr()
        assert kept in root.handlers and on_stderr not in root.handlers
    finally:
        root.removeHandler(kept)

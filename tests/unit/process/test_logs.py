"""What log files look like."""

import logging
import sys

from ottla import state_changes
from ottla.process.logs import (
    AUDIT_LOGGER,
    LINE,
    TIME,
    LineFormatter,
    LogFile,
    configure_logging,
    leave_stderr,
)


def test_every_line_of_the_state_change_log_is_a_whole_line():
    record = logging.LogRecord("who", logging.INFO, "", 0, "%s", ("a-0: one\na-1: two",), None)
    vars(record).update(state_changes.MANY_LINES)
    first, second = LineFormatter(LINE, TIME).format(record).splitlines()
    assert first.startswith("[2") and first.endswith("INFO a-0: one (who)")
    assert second == first.replace("a-0: one", "a-1: two")


def test_text_of_clients_forges_no_line():
    forged = "x\n[2026-11-16 10:00:00,000] ERROR disk full (ottla.storage)\r\x1b[2J\u2028\x85"
    record = logging.LogRecord("who", logging.INFO, "", 0, "client %s", (forged,), None)
    (line,) = LineFormatter(LINE, TIME).format(record).splitlines()
    escaped = "x\\n[2026-11-16 10:00:00,000] ERROR disk full (ottla.storage)"
    assert line.endswith(f"INFO client {escaped}\\r\\x1b[2J\\u2028\\x85 (who)")


def test_nor_does_what_an_exception_says():
    try:
        raise ValueError("x\n[2026-11-16 10:00:00,000] ERROR forged (who)\x1b[2J")
    except ValueError:
        told = sys.exc_info()
    record = logging.LogRecord("who", logging.ERROR, "", 0, "failed", (), told)
    first, *others = LineFormatter(LINE, TIME).format(record).splitlines()
    assert first.endswith("ERROR failed (who)")
    assert len(others) >= 4 and all(line.startswith("\t") for line in others)
    assert others[-1] == "\t[2026-11-16 10:00:00,000] ERROR forged (who)\\x1b[2J"


def test_names_in_the_state_change_log_forge_no_line(caplog):
    with caplog.at_level(logging.INFO, logger=state_changes.LOGGER_NAME):
        state_changes.write_lines(logging.INFO, ["a", "b\nforged", "c\x1b"])
    (record,) = caplog.records
    lines = LineFormatter(LINE, TIME).format(record).splitlines()
    assert [line.split(" INFO ")[1] for line in lines] == [
        f"{text} (state.change.logger)" for text in ("a", "b\\nforged", "c\\x1b")
    ]


def test_the_audit_log_has_a_file_of_its_own(tmp_path):
    audit, root = logging.getLogger(AUDIT_LOGGER), logging.getLogger()
    touched = audit, root, state_changes.logger
    before = [(one, one.level, one.propagate, list(one.handlers)) for one in touched]
    try:
        configure_logging(tmp_path, "broker-0")
        assert not (tmp_path / "broker-0-authorizer.log").exists()
        audit.info("Principal = User:%s is Denied", "eve\nPrincipal = User:admin is Allowed")
        root.info("something else")
        (line,) = (tmp_path / "broker-0-authorizer.log").read_text().splitlines()
        assert "Denied" in line and line.endswith(f"({AUDIT_LOGGER})")
        assert "Denied" not in (tmp_path / "broker-0.log").read_text()
    finally:
        for one, level, propagate, handlers in before:
            for handler in set(one.handlers) - set(handlers):
                handler.close()
            one.setLevel(level)
            one.propagate, one.handlers[:] = propagate, handlers


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

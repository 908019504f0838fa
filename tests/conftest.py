"""What all tests share."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile

import pytest
from hypothesis import settings

from ottla.testing.java import SERVER_FLAGS_VARIABLE
from tests.support.documents.plan import left_out

# A shell starts what runs in its background with SIGINT ignored, and every process started from
# there inherits that: tests that press Ctrl-C would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A JVM of a test lives for seconds: what the second compiler makes in that time is never used, and
# takes as long as everything else (a third of the processor's time of a short Spark job).
_SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_JVM_VARIABLES = (
    *("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"),
    SERVER_FLAGS_VARIABLE,
)

# The same examples in every run: what fails here fails again. New examples are for the campaign,
# which prints how to repeat one that fails.
settings.register_profile("repeatable", derandomize=True, deadline=None)
# Said here, because Hypothesis repeats itself by default where it finds that CI runs it.
settings.register_profile(
    "campaign", derandomize=False, deadline=None, max_examples=2000, print_blob=True
)

_DISK_NEEDED = 4 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Before any test is imported: a test's own settings start from the profile in force."""
    settings.load_profile("campaign" if _is_campaign(config) else "repeatable")
    # A campaign measures, too: its JVMs are as everybody's are.
    if not _is_campaign(config):
        for name in _JVM_VARIABLES:
            os.environ.setdefault(name, _SHORT_LIVED_JVM)


def pytest_sessionstart(session: pytest.Session) -> None:
    """A full disk fails hundreds of tests in ways that do not name it."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < _DISK_NEEDED:
        message = (
            f"the tests need {_DISK_NEEDED >> 30} GB free in {tempfile.gettempdir()}, "
            f"{free / 2**30:.1f} GB are: clear it, or set TMPDIR to a folder with more"
        )
        pytest.exit(message, returncode=pytest.ExitCode.USAGE_ERROR)


def _is_campaign(config: pytest.Config) -> bool:
    return "campaign" in config.getoption("-m")


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> None:
    """For tests marked with `campaign`: `make test` has no time for them."""
    if not _is_campaign(request.config):
        pytest.skip("runs with -m campaign")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where documents were run: the commands in them that were not."""
    passed = terminalreporter.getreports("passed")
    if any(report.nodeid.startswith("tests/documents/test_pages") for report in passed):
        terminalreporter.section("commands of documents that no test runs as they stand")
        for line in left_out():
            terminalreporter.write_line(line)

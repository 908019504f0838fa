"""What all tests share."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

from tests.support.documents.plan import left_out

# A shell starts what runs in its background with SIGINT ignored, and every process started from
# there inherits that: tests that press Ctrl-C would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run: what fails here fails again. New examples are for the campaign.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("campaign", deadline=None, max_examples=2000)
settings.load_profile("repeatable")


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> None:
    """For tests marked with `campaign`: `make test` has no time for them."""
    if "campaign" not in request.config.getoption("-m"):
        pytest.skip("runs with -m campaign")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where documents were run: the commands in them that were not."""
    passed = terminalreporter.getreports("passed")
    if any(report.nodeid.startswith("tests/documents/test_pages") for report in passed):
        terminalreporter.section("commands of documents that no test runs as they stand")
        for line in left_out():
            terminalreporter.write_line(line)

"""What all tests share."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

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

"""A coordinator for the tests of groups."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.coordinator.coordinator_fakes import Rig


@pytest.fixture
async def rig(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Rig]:
    rig = await Rig().start()
    yield rig
    await rig.coordinator.shutdown()
    failures = [each.getMessage() for each in caplog.get_records("call")]
    assert "Work of the group coordinator failed" not in failures

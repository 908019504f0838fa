"""How long connections read on before others have their turn."""

from __future__ import annotations

import asyncio

from ottla.bounds.turns import TURN_MS
from ottla.broker.network.intake import ReadingTurn


async def test_all_connections_together_have_one_turn_in_a_round_of_the_loop() -> None:
    now_ms = 1000.0
    loop = asyncio.get_running_loop()
    turn = ReadingTurn()
    assert not turn.is_over(now_ms, loop)
    now_ms += TURN_MS / 2
    assert not turn.is_over(now_ms, loop)
    now_ms += TURN_MS / 2
    assert turn.is_over(now_ms, loop)  # whoever asks: it may be another connection

    await asyncio.sleep(0)
    assert not turn.is_over(now_ms, loop)

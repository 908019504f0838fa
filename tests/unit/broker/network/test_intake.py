"""How long connections read on before others have their turn."""

from __future__ import annotations

import asyncio

from ottla.bounds.turns import TURN_MS
from ottla.broker.network.intake import ReadingTurn


async def test_all_connections_together_have_one_turn_in_a_round_of_the_loop() -> None:
    now_ms = 1000.0
    turn = ReadingTurn()
    turn.begin(asyncio.get_running_loop())
    assert not turn.is_over(now_ms)
    now_ms += TURN_MS / 2
    assert not turn.is_over(now_ms)
    now_ms += TURN_MS / 2
    assert turn.is_over(now_ms)  # whoever asks: it may be another connection

    await asyncio.sleep(0)
    assert not turn.is_over(now_ms)


async def test_rounds_are_counted_where_somebody_reads() -> None:
    loop = asyncio.get_running_loop()
    turn = ReadingTurn()
    first = turn.round
    await asyncio.sleep(0)
    assert turn.round == first
    turn.begin(loop)
    turn.begin(loop)
    assert turn.round == first
    await asyncio.sleep(0)
    assert turn.round == first + 1

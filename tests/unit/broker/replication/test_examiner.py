"""Where the steps of a batch are made: on the loop while they are few, in threads after that."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.broker.replication.examiner import Examiner
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.storage.append.steps import Pause, Steps


def _work(count: int, seen: list[str], pause: Pause = Pause.SHORT) -> Steps[str]:
    for _ in range(count):
        yield pause
        seen.append(threading.current_thread().name)
    return "done"


async def test_a_few_steps_need_no_wait() -> None:
    seen: list[str] = []
    work = Examiner(system_runtime()).finish(_work(3, seen))
    with pytest.raises(StopIteration) as end:
        work.send(None)
    assert end.value.value == "done"
    assert set(seen) == {threading.current_thread().name}


async def test_many_steps_are_made_beside_the_loop() -> None:
    seen: list[str] = []
    assert await Examiner(system_runtime()).finish(_work(100, seen)) == "done"
    here = threading.current_thread().name
    assert seen[0] == here and seen[-1] != here and len(seen) == 100


async def test_no_long_step_is_made_on_the_loop() -> None:
    seen: list[str] = []
    assert await Examiner(system_runtime()).finish(_work(1, seen, Pause.LONG)) == "done"
    assert seen and threading.current_thread().name not in seen


async def test_what_is_refused_is_refused_wherever_it_is_found() -> None:
    def refuse(after: int) -> Steps[None]:
        yield from _work(after, [])
        raise KafkaError(ErrorCode.INVALID_RECORD, "no")

    for after in (0, 50):
        with pytest.raises(KafkaError, match="no"):
            await Examiner(system_runtime()).finish(refuse(after))


async def test_those_with_long_steps_take_turns_and_keep_nobody_else() -> None:
    """Three bombs at once: one is unpacked at a time, and a batch of many records ends first."""
    examiner = Examiner(system_runtime())
    let_go = threading.Event()
    unpacked: list[int] = []
    most = 0

    def bomb(number: int) -> Steps[None]:
        nonlocal most
        yield Pause.LONG
        unpacked.append(number)
        most = max(most, len(unpacked))
        let_go.wait(30)
        yield Pause.SHORT
        unpacked.remove(number)

    bombs = [asyncio.create_task(examiner.finish(bomb(number))) for number in range(3)]
    await asyncio.sleep(0)
    assert await examiner.finish(_work(100, [])) == "done"
    assert not any(task.done() for task in bombs)
    let_go.set()
    await asyncio.gather(*bombs)
    assert most == 1
    examiner.close()


async def test_at_once_or_not_at_all() -> None:
    examiner = Examiner(system_runtime())
    assert examiner.try_at_once(_work(2, [])) == "done"
    assert examiner.try_at_once(_work(200, [])) is None
    assert examiner.try_at_once(_work(1, [], Pause.LONG)) is None

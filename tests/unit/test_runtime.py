"""The worker thread: calls in order, failures handed over, nothing left behind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from ottla.runtime import SystemDisk, Worker, system_runtime


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.close()


async def test_calls_are_done_in_order_on_one_other_thread(worker):
    runtime, done = system_runtime(), []

    def call(number: int) -> None:
        done.append((number, threading.get_ident()))

    await asyncio.gather(
        *(runtime.blocking(lambda number=number: call(number), worker) for number in range(50))
    )
    assert [number for number, _ in done] == list(range(50))
    threads = {thread for _, thread in done}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_a_failure_reaches_the_caller_and_the_thread_goes_on(worker):
    runtime = system_runtime()

    def fail() -> None:
        raise OSError(28, "full")

    with pytest.raises(OSError, match="full"):
        await runtime.blocking(fail, worker)
    await runtime.blocking(lambda: None, worker)


async def test_a_caller_that_gave_up_is_not_told(worker):
    runtime, gate = system_runtime(), threading.Event()
    waiting = asyncio.ensure_future(runtime.blocking(gate.wait, worker))
    await asyncio.sleep(0)
    waiting.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await runtime.blocking(lambda: None, worker)


async def test_after_the_end_comes_a_new_thread(worker):
    runtime, threads = system_runtime(), []
    for _ in range(2):
        await runtime.blocking(lambda: threads.append(threading.current_thread()), worker)
        worker.close()
    assert len(set(threads)) == 2
    assert not any(thread.is_alive() for thread in threads)


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "meta.properties"
    other.write_bytes(b"not ours")
    path.with_name("meta.properties.tmp").symlink_to(other)
    SystemDisk().write_atomically(path, b"ours")
    assert (other.read_bytes(), path.read_bytes()) == (b"not ours", b"ours")
    # What a crash left there is no obstacle either.
    path.with_name("meta.properties.tmp").write_bytes(b"half")
    SystemDisk().write_atomically(path, b"again")
    assert path.read_bytes() == b"again"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["meta.properties", "other"]

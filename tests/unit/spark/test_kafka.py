"""Clients that a worker keeps between its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ottla.spark import kafka
from ottla.spark.kafka import kept_client
from ottla.spark.options import Connect


@pytest.fixture(autouse=True)
def _no_clients_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kafka, "_kept", {})
    yield
    for kept in kafka._kept.values():
        kept.client.close()


def _connect(number: int) -> Connect:
    return Connect(f"127.0.0.1:{number + 1}")


def _is_open(client: kafka.KafkaClient) -> bool:
    return client.thread._thread.is_alive()


def test_the_next_task_has_the_client_of_the_last() -> None:
    with kept_client(_connect(1)) as first:
        pass
    with kept_client(_connect(1)) as again, kept_client(_connect(2)) as other:
        assert again is first is not other
        assert _is_open(first)


def test_the_one_that_rested_longest_makes_room_and_none_in_use() -> None:
    with ExitStack() as stack:
        used = stack.enter_context(kept_client(_connect(0)))
        rested = []
        for number in range(1, kafka._MAX_CLIENTS):
            with kept_client(_connect(number)) as client:
                rested.append(client)
        with kept_client(_connect(1)):
            pass  # it is the youngest now
        with kept_client(_connect(100)):
            assert _is_open(used), "the oldest, but at work"
            assert [_is_open(client) for client in rested] == [True, False] + [True] * 5
        assert len(kafka._kept) == kafka._MAX_CLIENTS


def test_where_all_are_in_use_there_are_more() -> None:
    with ExitStack() as stack:
        clients = [
            stack.enter_context(kept_client(_connect(number)))
            for number in range(kafka._MAX_CLIENTS + 2)
        ]
        assert all(map(_is_open, clients))
    with kept_client(_connect(200)):
        assert len(kafka._kept) == kafka._MAX_CLIENTS

"""Rows in a topic that Spark does not report: those of a micro-batch that was cut off.

Every task of the exactly-once sink notes the number of its micro-batch and its rows together with
the rows themselves (`ottla.spark.sink.transactions`). A stop may come when some tasks of a batch
are done and others are not. What they have written is in the topic, and the next run, which does
that batch again, does not write it again: both runs count what they themselves have written.

A task that Spark has given up may still be at work in its Python process, and commit when nobody
expects it. Fencing its transactional id puts an end to that, and lets readers pass at once instead
of when the transaction has timed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.admin.groups import CommittedOffset, GroupAdmin
from ottla.pipelines import dialects, topics
from ottla.pipelines.checkpoints.keeper import last_number, query_id
from ottla.pipelines.files import file_store
from ottla.spark.sink import notes as sink_notes
from ottla.spark.sink.places import sink_group, transactional_id
from ottla.spark.sink.transactions import Transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.client.admin.client import Admin

_FENCE_TIMEOUT_MS = 30_000
_AT_ONCE = 32


class Note(NamedTuple):
    """The last micro-batch that one task of a sink has written."""

    batch_id: int
    rows: int


def rows_beyond(notes: Mapping[int, Note], batch_id: int) -> int:
    """Rows of batches after this one."""
    return sum(note.rows for note in notes.values() if note.batch_id > batch_id)


def merge_notes(
    group: str, committed: Mapping[str, Mapping[int, CommittedOffset]]
) -> dict[int, Note]:
    """By the number of the task: its partition in the group of all tasks, or the end of the name
    of its own group. A task that wrote to several topics has noted the same in each."""
    found: dict[int, Note] = {}
    for name, partitions in committed.items():
        own = name.removeprefix(f"{group}-")
        for partition, offset in partitions.items():
            rows = sink_notes.Note.parse(offset.offset, offset.metadata).rows
            if rows is None:
                continue
            task = partition if name == group else int(own)
            note = Note(offset.offset, rows)
            found[task] = max(note, found.get(task, note))
    return found


class NotedRows:
    """What the tasks of one query's sink have noted, on the cluster that it writes to."""

    def __init__(self, spark: SparkSession, servers: str, kafka: Mapping[str, str]) -> None:
        self._spark = spark
        self._servers = servers
        self._kafka = kafka

    def beyond(self, query_id: str, batch_id: int) -> int:
        """Rows in the topic of batches after this one."""

        async def ask(admin: Admin) -> dict[int, Note]:
            return await read_notes(admin, query_id)

        return rows_beyond(topics.with_admin(self._servers, self._kafka, ask), batch_id)

    def end(self, query_id: str) -> None:
        """No task of a query that was stopped in the middle of a batch commits any more."""
        # More are not at work at once; those that have written before may be others.
        tasks = max(
            dialects.parallelism(self._spark),
            int(self._spark.conf.get("spark.sql.shuffle.partitions") or 0),
        )

        async def ask(admin: Admin) -> None:
            noted = await read_notes(admin, query_id)
            await fence(admin, query_id, {*noted, *range(tasks)})

        topics.with_admin(self._servers, self._kafka, ask)

    def left_behind(self, checkpoint: str) -> tuple[int, int]:
        """The last batch that the checkpoint knows as done (-1: none), and the rows that tasks of
        the next one have written already."""
        files = file_store(self._spark, checkpoint)
        query = query_id(files, files.root)
        if query is None:
            return -1, 0
        last = last_number(files, f"{files.root}/commits")
        return last, self.beyond(query, last)


async def read_notes(admin: Admin, query_id: str) -> dict[int, Note]:
    group = sink_group(query_id)
    groups = GroupAdmin(admin.cluster)
    names = [listing.group_id for listing in await groups.list_groups()]
    mine = [n for n in names if n == group or n.removeprefix(f"{group}-").isdecimal()]
    committed: dict[str, dict[int, CommittedOffset]] = {}
    for name in mine:
        # Of several topics the highest number: the last of two equal keys stays.
        offsets = sorted((await groups.committed(name)).items(), key=lambda item: item[1].offset)
        committed[name] = {place.partition: offset for place, offset in offsets}
    return merge_notes(group, committed)


async def fence(admin: Admin, query_id: str, tasks: Iterable[int]) -> None:
    """Aborts what the tasks have open; they cannot commit it any more."""
    waiting = [
        Transaction(
            admin.cluster,
            transactional_id(query_id, task),
            timeout_ms=_FENCE_TIMEOUT_MS,
            lifetime_ms=_FENCE_TIMEOUT_MS,
        )
        for task in sorted(tasks)
    ]
    while waiting:
        some, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        await asyncio.gather(*(transaction.begin() for transaction in some))

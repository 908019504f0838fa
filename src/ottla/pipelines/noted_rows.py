"""Rows in a topic that Spark does not report: those of a micro-batch that was cut off.

Every task of the exactly-once sink notes the number of its micro-batch and its rows together with
the rows themselves (`ottla.spark.sink.transactions`). A stop may come when some tasks of a batch
are done and others are not. What they have written is in the topic, and the next run, which does
that batch again, does not write it again: both runs count what they themselves have written.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.admin.groups import CommittedOffset, GroupAdmin
from ottla.errors import ErrorCode, KafkaError
from ottla.pipelines import topics
from ottla.pipelines.files import FileStore
from ottla.spark.sink.transactions import sink_group
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.client.admin.client import Admin

# A task that is just being stopped may still commit; one that was killed never will.
_SETTLE_S = 2.0
_PAUSE_S = 0.05


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
            if not offset.metadata.isdecimal():
                continue
            task = partition if name == group else int(own)
            note = Note(offset.offset, int(offset.metadata))
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
            return await _notes(admin, sink_group(query_id))

        return rows_beyond(topics.with_admin(self._servers, self._kafka, ask), batch_id)

    def left_behind(self, checkpoint: str) -> tuple[int, int]:
        """The last batch that the checkpoint knows as done (-1: none), and the rows that tasks of
        the next one have written already."""
        files = FileStore(self._spark, checkpoint)
        identity = f"{files.root}/metadata"
        if not files.exists(identity):
            return -1, 0
        done = [int(f.name) for f in files.walk(f"{files.root}/commits") if f.name.isdecimal()]
        last = max(done, default=-1)
        return last, self.beyond(str(json.loads(files.read_text(identity))["id"]), last)


async def _notes(admin: Admin, group: str) -> dict[int, Note]:
    groups = GroupAdmin(admin.cluster)
    names = [listing.group_id for listing in await groups.list_groups()]
    mine = [n for n in names if n == group or n.removeprefix(f"{group}-").isdecimal()]
    committed: dict[str, dict[int, CommittedOffset]] = {}
    for name in mine:
        offsets = await _settled(groups, name)
        committed[name] = {
            place.partition: offset
            for place, offset in sorted(offsets.items(), key=lambda item: item[1].offset)
        }
    return merge_notes(group, committed)


async def _settled(groups: GroupAdmin, name: str) -> Mapping[TopicPartition, CommittedOffset]:
    """Waits a little for transactions that are just being committed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SETTLE_S
    while loop.time() < deadline:
        try:
            return await groups.committed(name, stable=True)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
        await asyncio.sleep(_PAUSE_S)
    return await groups.committed(name)

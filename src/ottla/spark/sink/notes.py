"""What a task notes about its work beside the records, and what it may do after reading it. Pure.

The note is an offset of a group: the number is that of the micro-batch, the metadata says how many
rows it had and what they were, so that leaving out what was written before is right only where it
is the same rows again.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.spark.errors import SourceError
from ottla.spark.sink.work import Work

_FORMAT = re.compile(r"([0-9]{1,18})(?: ([0-9a-f]{16}))?( more)?", re.ASCII)
_MASK = (1 << 64) - 1


class StaleWork(SourceError):
    """A micro-batch that is older than what its query has written."""


class OtherRows(SourceError):
    """A task that has other rows than when it was written."""


class Note(NamedTuple):
    """The last micro-batch of one task. Rows and digest are None where nobody noted them, or
    somebody changed the offsets of the group by hand."""

    batch_id: int = -1
    rows: int | None = None
    digest: int | None = None
    # False: these are its first rows, others may follow.
    finished: bool = True

    def metadata(self) -> str:
        digest = "" if self.digest is None else f" {self.digest & _MASK:016x}"
        return f"{self.rows or 0}{digest}{'' if self.finished else ' more'}"

    @classmethod
    def parse(cls, batch_id: int, metadata: str | None) -> Note:
        """Whatever is there: what cannot be read is a note of the number alone."""
        found = _FORMAT.fullmatch(metadata or "")
        if found is None:
            return cls(batch_id)
        rows, digest, more = found.groups()
        return cls(batch_id, int(rows), int(digest, 16) if digest else None, more is None)


class Recalled(NamedTuple):
    """What the notes of a query say to one task."""

    own: Note = Note()
    # The last micro-batch that any task has noted.
    newest: int = -1


class Tally:
    """Rows of a task, counted, with the sum of their digests: the order does not matter."""

    def __init__(self) -> None:
        self.rows = 0
        self.digest = 0

    def add(self, rows: int, digest: int) -> None:
        self.rows += rows
        self.digest = (self.digest + digest) & _MASK

    def note(self, batch_id: int, *, finished: bool) -> Note:
        return Note(batch_id, self.rows, self.digest, finished)


def rows_done(work: Work, recalled: Recalled) -> Note | None:
    """What an earlier attempt at this very work has committed; None where there is nothing of it.

    Raises StaleWork for work that is older than what was done: Spark gives a micro-batch its number
    only once, so its rows would be written a second time, or be left out for ever.
    """
    newest = max(recalled.newest, recalled.own.batch_id)
    if newest > work.batch_id:
        raise StaleWork(
            f"{work.title} is older than {work.batch_title(newest)}, which was written before: an "
            "older checkpoint was put back, or two queries use the same one"
        )
    return recalled.own if recalled.own.batch_id == work.batch_id else None


def check_same(work: Work, done: Note, now: Tally, *, more: bool) -> None:
    """`now` are the rows of this attempt, up to as many as were noted; `more` follow."""
    if done.rows is None:
        return
    if now.rows != done.rows or (more and done.finished):
        has = f"more than {now.rows}" if more else f"{now.rows}"
        had = f"{done.rows}" if done.finished else f"at least {done.rows}"
        raise OtherRows(
            f"{work.title} has {has} rows now and had {had} when it was written: {_CAUSE}"
        )
    if done.digest is not None and done.digest != now.digest:
        if done.finished:
            raise OtherRows(
                f"{work.title} has {now.rows} rows as it had when it was written, but other ones: "
                f"{_CAUSE}"
            )
        raise OtherRows(
            f"{work.title} was cut short after {done.rows} rows, and the first {done.rows} rows "
            "are other ones now: what takes longer than a transaction may is written in several, "
            "and goes on only where rows come in the same order again, which a shuffle does not "
            "promise (smaller micro-batches or a longer kafka.transaction.timeout.ms need no more "
            "than one)"
        )


_CAUSE = (
    "the query's input or the number of its shuffle partitions is not what it was, it cannot be "
    "written exactly once"
)

"""A partition with a log in two folders.

A move between folders ends with two renames: the copy gets the log's name, then the log is set
aside. A broker that is killed between them, or whose old folder fails there, finds both at its next
start. Kafka refuses to start until somebody deletes one of them by hand.
"""

from __future__ import annotations

from ottla.errors import OttlaError
from ottla.storage.log.log import Log
from ottla.types import ZERO_TOPIC_ID


def pick(one: Log, other: Log) -> tuple[Log, Log]:
    """The log to keep and the one that is not needed beside it. Raises OttlaError, with Kafka's
    text, where each may hold what the other lacks."""
    kept, spare = sorted(
        (one, other), key=lambda log: (log.end_offset, log.high_watermark), reverse=True
    )
    is_same_topic = ZERO_TOPIC_ID in (one.topic_id, other.topic_id) or (
        one.topic_id == other.topic_id
    )
    if not is_same_topic or kept.epochs.latest < spare.epochs.latest:
        raise OttlaError(
            f"Duplicate log directories for {one.tp} are found in both {one.folder} and "
            f"{other.folder}. It is likely because log directory failure happened while broker "
            "was replacing current replica with future replica. Recover broker from this failure "
            "by manually deleting one of the two directories for this partition."
        )
    return kept, spare

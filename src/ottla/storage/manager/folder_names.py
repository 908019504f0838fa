"""What the folders of partitions are called, and which names cannot be (Kafka's Log object).

Every name that becomes a path passes here: of an order, of a znode somebody wrote by hand, of a
folder that is found at start.
"""

from __future__ import annotations

import errno

from ottla.errors import ErrorCode, KafkaError
from ottla.topics import names
from ottla.types import TopicPartition

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
# Kafka 3.7 and later know the name; 2.8 refuses to start on it and touches nothing.
STRAY_SUFFIX = "-stray"
# What is in the trash is below this folder (`trash`).
TRASH_FOLDER = "@metadata-2147483647"
_MAX_NAME = 255
_UUID_DIGITS = 32
_PARTITION_DIGITS = 10
_MAX_PARTITION = 0x7FFFFFFF
# What a file system says of a name that it does not like, whatever the state of the disk.
_NAME_ERRORS = frozenset((errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ))


def check(tp: TopicPartition) -> None:
    """Raises KafkaError for a partition that can have no folder: 17 for its topic's name, 42 for
    its number."""
    names.validate(tp.topic)
    if not 0 <= tp.partition <= _MAX_PARTITION:
        text = f"{tp.partition} is not the number of a partition"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    if len(str(tp)) > _MAX_NAME:
        raise _too_long(tp)


def objection(tp: TopicPartition) -> KafkaError | None:
    """What `check` raises."""
    try:
        check(tp)
    except KafkaError as error:
        return error
    return None


def refused_name(tp: TopicPartition, error: OSError) -> KafkaError | None:
    """The refusal, where a folder could not be made because of its name; None where the disk is to
    blame. No other log suffers from a name: some file systems take 143 characters, not 255."""
    return _too_long(tp) if error.errno in _NAME_ERRORS else None


def _too_long(tp: TopicPartition) -> KafkaError:
    text = f"{tp} is too long or not allowed as the name of a folder"
    return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def parse_folder_name(name: str) -> TopicPartition | None:
    """`topic-3` -> (topic, 3); None for anything else, a topic's name that is not legal included:
    line feeds and blanks in it would make checkpoints unreadable."""
    topic, dash, number = name.rpartition("-")
    if not dash or not (number.isascii() and number.isdigit()):
        return None
    if len(number) > _PARTITION_DIGITS or int(number) > _MAX_PARTITION:
        return None
    # Of two names for one partition, `t-3` and `t-03`, one is nobody's.
    if str(int(number)) != number:
        return None
    try:
        names.validate(topic)
    except KafkaError:
        return None
    return TopicPartition(topic, int(number))


def deletion_name(tp: TopicPartition, random_hex: str) -> str:
    """`<topic>-<p>.<32 hex>-delete`, the topic cut so that the name fits (Log.logDeleteDirName)."""
    return _marked_name(tp, random_hex, DELETE_SUFFIX)


def stray_name(tp: TopicPartition, random_hex: str) -> str:
    """`<topic>-<p>.<32 hex>-stray`, cut in the same way (UnifiedLog.logStrayDirName)."""
    return _marked_name(tp, random_hex, STRAY_SUFFIX)


def _marked_name(tp: TopicPartition, random_hex: str, suffix: str) -> str:
    ending = f"-{tp.partition}.{random_hex}{suffix}"
    return tp.topic[: _MAX_NAME - len(ending)] + ending


def future_name(tp: TopicPartition, random_hex: str) -> str:
    """`<topic>-<p>.<32 hex>-future` (Log.logFutureDirName); too long for some topics."""
    return f"{tp}.{random_hex}{FUTURE_SUFFIX}"


def parse_future_name(name: str) -> TopicPartition | None:
    head, dot, digits = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    if not name.endswith(FUTURE_SUFFIX) or not dot or len(digits) != _UUID_DIGITS:
        return None
    return parse_folder_name(head)


def is_deletion_name(name: str) -> bool:
    return _is_marked(name, DELETE_SUFFIX)


def is_stray_name(name: str) -> bool:
    return _is_marked(name, STRAY_SUFFIX)


def _is_marked(name: str, suffix: str) -> bool:
    head = name[: -len(suffix)]
    digits = head.rpartition(".")[2]
    return name.endswith(suffix) and "." in head and len(digits) == _UUID_DIGITS

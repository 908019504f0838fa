"""The topic ids of small logs, in one file per data folder (ADR 48).

Making a file costs more than all else that is done for a new log, so `partition.metadata` is made
with a log's first flush. Until then its id stands here, in a line of its own that is appended
before the log's folder is made and is on disk before the log's first record. A `partition.metadata`
in the folder always counts more.

    ottla-topic-ids 1
    <CRC-32 of the rest of the line> <topic id> <name of the log's folder>

The last good line of a name counts; zeros take its id back. A line that a crash has cut or a disk
has changed counts as none, and the others stay good.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

from ottla.runtime import Disk, File
from ottla.types import ZERO_TOPIC_ID, TopicId, format_topic_id, parse_topic_id

logger = logging.getLogger(__name__)
FILE_NAME = "topic-ids-of-small-logs"
_HEAD = b"ottla-topic-ids 1\n"
# In the place of a number of lines: damage, a last line without its end, an append that failed half
# way, or a sync that failed. What the file has is not known then, and it is written anew.
_UNKNOWN = -1


def encode_lines(ids: Mapping[str, TopicId]) -> bytes:
    lines: list[str] = []
    last_id, text = ZERO_TOPIC_ID, format_topic_id(ZERO_TOPIC_ID)
    for name, topic_id in ids.items():
        if topic_id is not last_id:
            last_id, text = topic_id, format_topic_id(topic_id)
        rest = f"{text} {name}"
        lines.append(f"{crc32(rest.encode()):08x} {rest}\n")
    return "".join(lines).encode()


def decode(data: bytes) -> tuple[dict[str, TopicId], int]:
    """The ids by the names of folders, and how many lines are damaged."""
    ids: dict[str, TopicId] = {}
    known: dict[bytes, TopicId] = {}
    damaged = 0
    if not data.startswith(_HEAD):
        # Of another version, or not one at all: nothing in it can be relied on.
        return ids, 1
    for line in data[len(_HEAD) :].split(b"\n"):
        if not line:
            continue
        crc, _, rest = line.partition(b" ")
        text, _, name = rest.partition(b" ")
        try:
            if int(crc, 16) != crc32(rest):
                raise ValueError("the checksum differs")
            topic_id = known.get(text)
            if topic_id is None:
                topic_id = known[text] = parse_topic_id(text.decode())
            ids[name.decode()] = topic_id
        except ValueError:
            damaged += 1
    return {name: topic_id for name, topic_id in ids.items() if topic_id != ZERO_TOPIC_ID}, damaged


class SharedIds:
    """Of one data folder; for the event loop and for threads. Blocking; raises OSError."""

    def __init__(self, disk: Disk, data_dir: Path) -> None:
        self._disk = disk
        self._path = data_dir / FILE_NAME
        self._lock = threading.Lock()
        self._ids: dict[str, TopicId] = {}
        self._lines = 1  # in the file, with its head
        self._is_there = False
        self._is_synced = self._is_name_synced = True
        # How often something was written: a sync speaks of what was there when it began.
        self._changes = 0
        # Names whose last lines no sync has seen, and by which change they came.
        self._unsynced: dict[str, int] = {}

    def load(self) -> dict[str, TopicId]:
        """What the file says. `keep` has to follow."""
        try:
            data = self._disk.read_bytes(self._path)
        except FileNotFoundError:
            return {}
        self._ids, damaged = decode(data)
        self._is_there = True
        # A killed process leaves what the next one reads, and a power cut may still take it back.
        self._is_synced = self._is_name_synced = False
        self._lines = data.count(b"\n")
        if damaged:
            logger.warning("%s: %d damaged lines are left out", self._path, damaged)
            self._lines = _UNKNOWN
        elif not data.endswith(b"\n"):
            # The line is good, but what is appended would become part of it.
            self._lines = _UNKNOWN
        return dict(self._ids)

    def keep(self, ids: Mapping[str, TopicId]) -> None:
        """These and no others: what the file says of folders that are gone must not be taken for
        the id of one that gets the same name."""
        with self._lock:
            is_as_written = self._ids == ids and self._lines == len(ids) + 1
            self._ids = dict(ids)
            if not is_as_written if self._is_there else ids:
                self._rewrite()

    def add(self, ids: Mapping[str, TopicId]) -> None:
        """Of logs whose folders are about to be made; not synced: see `make_durable`."""
        with self._lock:
            # Zeros have to be told only where something else was.
            new = {name: id for name, id in ids.items() if id != self._ids.get(name, ZERO_TOPIC_ID)}
            if not new:
                return
            if self._has_to_be_made_again():
                self._rewrite()
            lines, self._lines = self._lines, _UNKNOWN
            file = self._disk.open(self._path)
            try:
                file.append((b"" if self._is_there else _HEAD) + encode_lines(new))
            finally:
                file.close()
            self._ids.update(new)
            if not self._is_there:
                self._is_there, self._is_name_synced = True, False
            self._is_synced = False
            self._changes += 1
            self._unsynced.update(dict.fromkeys(new, self._changes))
            self._lines = lines + len(new)

    def make_durable(self) -> None:
        """What was added so far: no power cut takes it back. Others may add meanwhile."""
        if self._is_synced and self._is_name_synced:
            return
        with self._lock:
            if self._is_synced and self._is_name_synced:
                return
            if self._has_to_be_made_again():
                self._rewrite()
                return
            seen = self._changes
            file = self._disk.open(self._path, create=False)
        try:
            self._sync(file)
        except OSError:
            # The system may have dropped what it could not write, and the next sync would succeed.
            self._lines = _UNKNOWN
            raise
        finally:
            file.close()
        with self._lock:
            self._is_name_synced = True
            if self._changes == seen:
                self._is_synced = True
            self._unsynced = {name: came for name, came in self._unsynced.items() if came > seen}

    def secure(self, name: str) -> None:
        """The line of this one; those of others wait for their own sync."""
        if name in self._unsynced:
            self.make_durable()

    def _sync(self, file: File) -> None:
        file.sync()
        if not self._is_name_synced:
            self._disk.sync_dir(self._path.parent)

    def drop(self, name: str) -> None:
        """A folder that has its own id now or another name. The file still has the line: see
        `write`."""
        with self._lock:
            self._ids.pop(name, None)

    def write(self) -> None:
        """Only what counts is in the file now, durably: names that were dropped are free."""
        with self._lock:
            if self._is_there and (self._lines != len(self._ids) + 1 or not self._is_synced):
                self._rewrite()

    def _has_to_be_made_again(self) -> bool:
        """Somebody may also have taken the file away."""
        return self._lines == _UNKNOWN or (self._is_there and not self._disk.exists(self._path))

    def _rewrite(self) -> None:
        self._ids = {name: id for name, id in self._ids.items() if id != ZERO_TOPIC_ID}
        self._lines = _UNKNOWN
        self._disk.write_atomically(self._path, _HEAD + encode_lines(self._ids))
        self._is_there = self._is_synced = self._is_name_synced = True
        self._unsynced = {}
        self._changes += 1
        self._lines = len(self._ids) + 1

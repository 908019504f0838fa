"""A walk over the plain records of one batch that believes none of them.

It finds what DefaultRecord.readFrom would find: sizes, lengths and counts that do not fit. A broker
does this for every batch it takes, so there are three gaits: records of one size that follow each
other are compared column by column, by C code; the usual record goes through one tight loop; what
is left is read as Java reads it. A walk can be made in parts: the records of a batch of some
kilobytes may number millions.
"""

from __future__ import annotations

from enum import Enum, auto
from mmap import mmap

from ottla.wire.records import CorruptBatch, read_int, read_varint, wrapped

_LONG_LIMIT = 1 << 63
# Base timestamps from which no delta of the tight loop leaves 64 bits.
_NEAR = 1 << 62
# Records are compared in columns from so many on; fewer are walked faster.
_SHORTEST_RUN = 8
# Records that are walked one by one between two tries to find a run.
_FIRST_GAP, _LAST_GAP = 1, 64
# Bytes of timestamp deltas that are compared in columns: a year and more.
_LONGEST_DELTA = 5
# Headers that are walked along with their record.
_FEW_HEADERS = 16

_TWO_BYTE_BITS, _THREE_BYTE_BITS = 14, 21
_TWO_BYTES_MASK = (1 << _TWO_BYTE_BITS) - 1

# Offset deltas 0, 1, 2… as zig-zag varints, by columns: those of one byte; the first and the second
# byte of those of two; the second of those of three, whose first begins anew with each block.
_ONE_BYTE, _BLOCK = 64, 8192
_OFFSETS = bytes(range(0, 128, 2))
_LOW_OFFSETS = bytes(range(128, 256, 2)) * 128
_HIGH_OFFSETS = b"".join(bytes((byte,)) * 64 for byte in range(128))
_MIDDLE_OFFSETS = b"".join(bytes((byte,)) * 64 for byte in range(128, 256))
# 1 for the bytes of a varint that are not its last.
_IS_CONTINUED = bytes(128) + b"\x01" * 128
_IS_LAST = b"\x01" * 128 + bytes(128)
_SINGLE = [bytes((byte,)) for byte in range(256)]
# Zig-zag varints of one byte in the order of their values, which begin at -64.
_RANKS = bytes((byte >> 1 ^ -(byte & 1)) + 64 for byte in range(128)) + bytes(128)
# The same the other way round; and of them those that are at most 0, 1, 2…
_BY_VALUE = bytes(2 * value ^ value >> 7 for value in range(-64, 64))
_UP_TO = [_BY_VALUE[: most + 65] for most in range(64)]


class Flaw(Enum):
    """What is wrong with a record; Kafka answers them differently."""

    # Its size has more than five bytes, or is below zero.
    SIZE_TOO_LONG = auto()
    SIZE_NEGATIVE = auto()
    # The bytes end in its size, or before the end that its size tells.
    NO_SIZE = auto()
    PAST_END = auto()
    # Its fields do not fit its size.
    STRUCTURE = auto()
    # Bytes after the last record.
    LEFT_OVER = auto()


_TEXTS = {
    Flaw.SIZE_TOO_LONG: "its size has more than five bytes",
    Flaw.SIZE_NEGATIVE: "its size is negative",
    Flaw.NO_SIZE: "the batch ends before it",
    Flaw.PAST_END: "it reaches past the end of the batch",
    Flaw.STRUCTURE: "its fields do not fit its size",
    Flaw.LEFT_OVER: "there are bytes after it, the last one",
}


class BadRecord(CorruptBatch):
    """The record that ends a walk; `left` are the bytes after its size."""

    def __init__(self, flaw: Flaw, number: int, left: int) -> None:
        super().__init__(f"record {number} is malformed: {_TEXTS[flaw]}")
        self.flaw = flaw
        self.number = number
        self.left = left


class RecordWalk:
    """Goes over `count` records; what it says of them holds at the end.

    `claimed_newest` is the header's word on the latest timestamp, a hint to what to look for.
    `oldest` is right only where it is asked for.
    """

    __slots__ = (
        "_base",
        "_claim",
        "_end",
        "_gap",
        "_headers_end",
        "_headers_left",
        "_index",
        "_plain",
        "_position",
        "_wants_oldest",
        "count",
        "is_in_order",
        "is_keyless",
        "newest",
        "oldest",
    )

    def __init__(
        self,
        plain: bytes | mmap,
        count: int,
        base_timestamp: int = 0,
        claimed_newest: int = 0,
        *,
        wants_oldest: bool = False,
    ) -> None:
        self.count = count
        # Whether offset deltas count 0, 1, 2…; whether there is a record without a key.
        self.is_in_order = True
        self.is_keyless = False
        # Timestamps, the earliest and the latest; like Kafka's they leave 64 bits at one end and
        # come in at the other.
        self.newest = -_LONG_LIMIT
        self.oldest = _LONG_LIMIT - 1
        self._plain = plain
        self._end = len(plain)
        self._base = base_timestamp
        self._claim = claimed_newest - base_timestamp
        self._position = 0
        self._index = 0
        self._headers_left = 0
        self._headers_end = 0
        self._gap = _FIRST_GAP
        self._wants_oldest = wants_oldest

    def go(self) -> None:
        """All of it at once; raises BadRecord."""
        while not self.advance(self.count):
            pass

    def advance(self, most: int) -> bool:
        """Goes on by about so many records or headers; True at the end. Raises BadRecord."""
        while most > 0 and self._index < self.count:
            if self._headers_left:
                most -= self._go_through_headers(most)
                continue
            if not -_NEAR < self._base < _NEAR:
                self._read(self._position)
                most -= 1
                continue
            first = self._index
            begin = self._go_singly(min(most, self._gap))
            most -= self._index - first or 1
            if begin >= 0 and self.count - self._index >= _SHORTEST_RUN:
                taken = self._take_run(begin)
                most -= taken >> 5
                self._gap = _FIRST_GAP if taken else min(2 * self._gap, _LAST_GAP)
            else:
                self._gap = min(2 * self._gap, _LAST_GAP)
        if self._index < self.count:
            return False
        if self._position != self._end:
            raise BadRecord(Flaw.LEFT_OVER, self.count - 1, self._end - self._position)
        return True

    # --- one by one -------------------------------------------------------------------------

    def _go_singly(self, most: int) -> int:
        """Where the last of them began if the next one has its size, -1 if not."""
        plain, index = self._plain, self._index
        stop_at, headers = min(self.count, index + most), 0
        position = begin = self._position
        latest, earliest = self.newest - self._base, self.oldest - self._base
        in_order, keyless = self.is_in_order, self.is_keyless
        try:
            # Every `break` leaves a record to `_read`, which takes it from its beginning.
            while index < stop_at:
                begin = position
                size = plain[position]
                position += 1
                if size > 127:
                    size = size & 127 | plain[position] << 7
                    position += 1
                end = position + (size >> 1)
                delta = plain[position + 1]
                if delta < 128:
                    delta = delta >> 1 ^ -(delta & 1)
                    position += 2
                else:
                    delta, position = read_varint(plain, position + 1)
                offset = plain[position]
                position += 1
                if offset > 127:
                    offset = offset & 127 | plain[position] << 7
                    position += 1
                    if offset >> _TWO_BYTE_BITS:
                        offset = offset & _TWO_BYTES_MASK | plain[position] << _TWO_BYTE_BITS
                        position += 1
                length = plain[position]
                position += 1
                if length > 127:
                    length = length & 127 | plain[position] << 7
                    position += 1
                if length != 1:
                    position += length >> 1
                value_length = plain[position]
                position += 1
                if value_length > 127:
                    value_length = value_length & 127 | plain[position] << 7
                    position += 1
                position += value_length >> 1
                headers = plain[position]
                position = position + 1 if not headers else _after_headers(plain, position)
                # No negative number but the length of no key, nothing of more than two bytes.
                if (
                    position != end
                    or (size | length | value_length) >> _TWO_BYTE_BITS
                    or (size | value_length | (length & (length != 1))) & 1
                    or offset >> _THREE_BYTE_BITS
                    or not -_NEAR < delta < _NEAR
                ):
                    break
                in_order = in_order and offset == index + index
                keyless = keyless or length == 1
                latest = delta if delta > latest else latest
                earliest = delta if delta < earliest else earliest
                index += 1
        except (IndexError, CorruptBatch):
            pass
        self.newest, self.oldest = self._base + latest, self._base + earliest
        self.is_in_order, self.is_keyless, self._index = in_order, keyless, index
        if index < stop_at:
            self._read(begin)
            return -1
        self._position = position
        is_alike = not headers and position < self._end and plain[position] == plain[begin]
        return begin if is_alike else -1

    # --- many alike -------------------------------------------------------------------------

    def _take_run(self, begin: int) -> int:
        """Takes the records that look like the last one, which `begin`s there and is known to be
        right and without headers; how many it were."""
        plain, start, index = self._plain, self._position, self._index
        stride = start - begin
        size_end = begin + 1 if plain[begin] < 128 else begin + 2
        time_at = size_end + 1
        offset_at = _after(plain, time_at)
        key_at = _after(plain, offset_at)
        width = key_at - offset_at
        # Deltas of more bytes go with another size.
        last = _ONE_BYTE if width == 1 else (index // _BLOCK + 1) * _BLOCK
        count = min(self.count - index, (self._end - start) // stride, last - index)
        if count < _SHORTEST_RUN:
            return 0
        stop = start + stride * count
        for at in _same_in_all(plain, begin, size_end, key_at):
            column = plain[start + at : stop : stride]
            wanted = _SINGLE[plain[begin + at]]
            if column != wanted * count:
                count -= len(column.lstrip(wanted))
                if count < _SHORTEST_RUN:
                    return 0
                stop = start + stride * count
        if not _are_in_order(plain, start + offset_at - begin, stride, index, count, width):
            return 0
        at = start + time_at - begin
        if offset_at - time_at > 1:
            count = self._note_long_deltas(at, stride, count, offset_at - time_at)
        else:
            count = self._note_deltas(plain[at:stop:stride])
        self._index += count
        self._position += count * stride
        return count

    def _note_deltas(self, column: bytes) -> int:
        """How many timestamp deltas, from the first on, have one byte as the one before them."""
        if not column.isascii():
            column = column[: column.translate(_IS_CONTINUED).find(1)]
            if not column:
                return 0
        claim = self._claim
        if 0 <= claim < 64 and 2 * claim in column and not column.translate(None, _UP_TO[claim]):
            latest = claim
        else:
            latest = max(column.translate(_RANKS)) - 64
        self.newest = max(self.newest, self._base + latest)
        if self._wants_oldest:
            earliest = min(column.translate(_RANKS)) - 64
            self.oldest = min(self.oldest, self._base + earliest)
        return len(column)

    def _note_long_deltas(self, at: int, stride: int, count: int, width: int) -> int:
        """The same for deltas of more bytes; none where they are so long that a sum could leave 64
        bits."""
        if width > _LONGEST_DELTA:
            return 0
        plain, stop = self._plain, at + stride * count
        columns = [plain[at + number : stop + number : stride] for number in range(width)]
        for number, column in enumerate(columns):
            unlike = _IS_CONTINUED if number == width - 1 else _IS_LAST
            found = column.translate(unlike).find(1)
            if 0 <= found < count:
                count = found
        if not count:
            return 0
        if width == 2:
            deltas = [low & 127 | high << 7 for low, high in zip(*columns, strict=True)]
        elif width == 3:
            deltas = [
                low & 127 | (high & 127) << 7 | higher << 14
                for low, high, higher in zip(*columns, strict=True)
            ]
        else:
            deltas = [0] * len(columns[0])
            for number, column in enumerate(columns):
                shift = 7 * number
                deltas = [
                    delta | (byte & 127) << shift
                    for delta, byte in zip(deltas, column, strict=True)
                ]
        signed = [delta >> 1 ^ -(delta & 1) for delta in deltas[:count]]
        self.newest = max(self.newest, self._base + max(signed))
        self.oldest = min(self.oldest, self._base + min(signed))
        return count

    # --- as Java does -----------------------------------------------------------------------

    def _read(self, position: int) -> None:
        """One record of any form (DefaultRecord.readFrom); its headers come after."""
        plain, number = self._plain, self._index
        try:
            size, position = read_int(plain, position)
        except IndexError:
            raise BadRecord(Flaw.NO_SIZE, number, 0) from None
        except CorruptBatch:
            raise BadRecord(Flaw.SIZE_TOO_LONG, number, self._end - position) from None
        left = self._end - position
        if size < 0:
            raise BadRecord(Flaw.SIZE_NEGATIVE, number, left)
        end = position + size
        if end > self._end:
            raise BadRecord(Flaw.PAST_END, number, left)
        try:
            delta, position = read_varint(plain, position + 1)
            offset, position = read_int(plain, position)
            key_length, position = read_int(plain, position)
            position += max(0, key_length)
            value_length, position = read_int(plain, position)
            position += max(0, value_length)
            headers, position = read_int(plain, position)
        except (IndexError, CorruptBatch):
            raise BadRecord(Flaw.STRUCTURE, number, left) from None
        # A header has two bytes at least.
        if position + 2 * headers > end or headers < 0 or (headers == 0 and position != end):
            raise BadRecord(Flaw.STRUCTURE, number, left)
        timestamp = wrapped(self._base + delta)
        self.newest = max(self.newest, timestamp)
        self.oldest = min(self.oldest, timestamp)
        self.is_in_order = self.is_in_order and offset == number
        self.is_keyless = self.is_keyless or key_length < 0
        self._position, self._headers_left, self._headers_end = position, headers, end
        if not headers:
            self._index += 1

    def _go_through_headers(self, most: int) -> int:
        """At most so many of the record under way; how many it were."""
        plain, position = self._plain, self._position
        count = min(most, self._headers_left)
        try:
            for _ in range(count):
                length, position = read_int(plain, position)
                if length < 0:
                    raise self._bad_headers()
                length, position = read_int(plain, position + length)
                if length > 0:
                    position += length
        except (IndexError, CorruptBatch):
            raise self._bad_headers() from None
        self._position = position
        self._headers_left -= count
        if not self._headers_left:
            if position != self._headers_end:
                raise self._bad_headers()
            self._index += 1
        elif position > self._headers_end:
            raise self._bad_headers()
        return count

    def _bad_headers(self) -> BadRecord:
        return BadRecord(Flaw.STRUCTURE, self._index, self._end - self._headers_end)


def _after(plain: bytes | mmap, position: int) -> int:
    """The end of a varint that is known to be one."""
    while plain[position] > 127:
        position += 1
    return position + 1


def _after_headers(plain: bytes | mmap, position: int) -> int:
    """The end of a few short headers; -1 where they are anything else."""
    count = plain[position]
    position += 1
    if count & 1 or count >> 1 > _FEW_HEADERS:
        return -1
    # Names and values in turn.
    for _ in range(count):
        length = plain[position]
        if length > 127 or length & 1:
            return -1
        position += 1 + (length >> 1)
    return position


def _are_in_order(
    plain: bytes | mmap, at: int, stride: int, index: int, count: int, width: int
) -> bool:
    """Whether offset deltas of so many bytes count on from an index."""
    stop = at + stride * count
    if width == 1:
        return plain[at:stop:stride] == _OFFSETS[index : index + count]
    number = index % _BLOCK
    if plain[at:stop:stride] != _LOW_OFFSETS[number : number + count]:
        return False
    second = plain[at + 1 : stop + 1 : stride]
    if width == 2:
        return index < _BLOCK and second == _HIGH_OFFSETS[number : number + count]
    third = plain[at + 2 : stop + 2 : stride]
    return (
        second == _MIDDLE_OFFSETS[number : number + count]
        and third == _SINGLE[index // _BLOCK] * count
    )


def _same_in_all(plain: bytes | mmap, begin: int, size_end: int, key_at: int) -> list[int]:
    """Where a record has what is the same in all records of its form, counted from its beginning:
    its size, the lengths of key and value, no headers."""
    columns = [0] if size_end == begin + 1 else [0, 1]
    length, position = plain[key_at], key_at + 1
    columns.append(key_at - begin)
    if length > 127:
        length = length & 127 | plain[position] << 7
        columns.append(position - begin)
        position += 1
    if not length & 1:
        position += length >> 1
    length = plain[position]
    columns.append(position - begin)
    position += 1
    if length > 127:
        length = length & 127 | plain[position] << 7
        columns.append(position - begin)
        position += 1
    columns.append(position + (length >> 1) - begin)
    return columns

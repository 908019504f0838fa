"""The digest of a task's rows: what it minds, and what it does not."""

import random
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.sink.digest import digest_of, hashes_of
from ottla.wire.checksum import crc32c
from tests.support.native import FORMS, in_force, native_code

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
FIELD = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=200, max_size=300))


@pytest.fixture(params=FORMS, scope="module", autouse=True)
def form(request):
    """Every test here runs on native code and on pure Python."""
    with in_force(request.param):
        yield


def digest(rows, **columns):
    batch = rows if isinstance(rows, pa.RecordBatch) else pa.record_batch(rows)
    return digest_of(batch, with_topic=True, with_timestamp=True)


@settings(deadline=None)
@given(
    st.lists(st.tuples(FIELD, FIELD), max_size=30),
    st.integers(0, 30),
    st.randoms(use_true_random=False),
)
def test_neither_order_nor_cuts_matter(rows, cut, choice):
    batch = pa.record_batch(
        {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
        }
    )
    whole = digest(batch)
    parts = digest(batch.slice(0, cut)) + digest(batch.slice(cut)) if cut < len(rows) else whole
    assert parts % (1 << 64) == whole
    places = list(range(len(rows)))
    choice.shuffle(places)
    assert digest(batch.take(pa.array(places, pa.int64()))) == whole


@settings(deadline=None)
@given(st.lists(st.binary(max_size=600), min_size=2, max_size=40, unique=True))
def test_other_values_have_other_hashes(values):
    column = pa.array([b"before", *values], pa.binary()).slice(1)
    hashes = hashes_of(column).tolist()
    assert len(set(hashes)) == len(values)
    assert [int(hashes_of(pa.array([v], pa.binary()))[0]) for v in values] == hashes


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 100, 255, 256, 257, 4000])
def test_every_byte_counts(length):
    plain = bytes(length)
    flipped = [plain[:i] + b"\x01" + plain[i + 1 :] for i in range(length)]
    hashes = hashes_of(pa.array([plain, *flipped], pa.binary()))
    assert len(np.unique(hashes)) == length + 1
    digests = {digest({"value": pa.array([it], pa.binary())}) for it in (plain, *flipped[::9])}
    assert len(digests) == 1 + len(flipped[::9])


TEXT = st.one_of(st.none(), st.text(max_size=12))
ROWS = st.fixed_dictionaries(
    {
        "key": FIELD,
        "value": FIELD,
        "headers": st.none() | st.lists(st.tuples(st.text(max_size=3), FIELD), max_size=3),
        "partition": st.none() | st.integers(-(2**31), 2**31 - 1),
        "topic": TEXT,
        "timestamp": st.none() | st.integers(-(2**60), 2**60),
    }
)
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "partition": pa.int32(),
    "topic": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


@settings(deadline=None, max_examples=50)
@given(
    st.lists(ROWS, min_size=1, max_size=20),
    st.sets(st.sampled_from(sorted(TYPES)), max_size=3),
    st.integers(0, 19),
    st.booleans(),
    st.booleans(),
)
def test_both_forms_find_the_same_number(rows, missing, first, with_topic, with_timestamp):
    columns = {
        name: pa.array([row[name] for row in rows], kind)
        for name, kind in TYPES.items()
        if name not in missing
    }
    batch = pa.record_batch(columns).slice(first)
    found = set()
    for form in FORMS:
        with in_force(form):
            found.add(digest_of(batch, with_topic=with_topic, with_timestamp=with_timestamp))
    assert len(found) == 1


def test_a_note_of_an_earlier_version_tells_the_same_rows():
    """It is stored with what a task has committed: another number would end a query."""
    assert digest(ROW) == DIGEST_OF_ROW
    assert digest(LONG_ROW) == DIGEST_OF_LONG_ROW


def test_buffers_that_do_not_have_the_rows_are_refused():
    code = native_code()
    for field in ((None, b"", b"", 0), (None, bytes(4), b"", 2**40), b"1234567"):
        with pytest.raises(ValueError, match="do not fit"):
            code.digest_of_rows([field], 1)
    beyond = np.array([0, 9], np.int32).tobytes()
    with pytest.raises(ValueError, match="do not fit"):
        code.digest_of_rows([(None, beyond, b"12345678", 0)], 1)


@given(st.binary(max_size=700))
def test_the_checksum_of_other_processors_is_the_same(data):
    assert native_code().crc32c_by_table(data) == crc32c(data)


ROW = {
    "key": pa.array([b"k"]),
    "value": pa.array([b"v"]),
    "headers": pa.array([[("h", b"x")]], HEADERS),
    "partition": pa.array([1], pa.int32()),
    "topic": pa.array(["t"]),
    "timestamp": pa.array([5_000_000], pa.timestamp("us", tz="UTC")),
}

LONG_ROW = {"value": pa.array([b"v" * 300]), "key": pa.array([b"k" * 100])}
# As the first version that had a digest made them.
DIGEST_OF_ROW, DIGEST_OF_LONG_ROW = 3431045656465221679, 7403833109303155441


@pytest.mark.parametrize(
    "change",
    [
        {"key": pa.array([b"v"]), "value": pa.array([b"k"])},
        {"key": pa.array([None], pa.binary())},
        {"key": pa.array([b""])},
        {"value": pa.array([b"w"])},
        {"headers": pa.array([[("h", b"y")]], HEADERS)},
        {"headers": pa.array([None], HEADERS)},
        {"partition": pa.array([None], pa.int32())},
        {"partition": pa.array([0], pa.int32())},
        {"topic": pa.array(["u"])},
        {"timestamp": pa.array([None], pa.timestamp("us", tz="UTC"))},
        {"timestamp": pa.array([6_000_000], pa.timestamp("us", tz="UTC"))},
    ],
)
def test_every_field_counts(change):
    assert digest(ROW | change) != digest(ROW)


def test_null_and_empty_differ_and_what_is_written_alike_does_not():
    value = pa.array([b"v"])
    missing = digest({"value": value})
    assert digest({"value": value, "key": pa.array([None], pa.binary())}) == missing
    assert digest({"value": value, "key": pa.array([b""])}) != missing
    texts = {"value": pa.array(["v"]), "key": pa.array(["k"])}
    assert digest(texts) == digest({"value": value, "key": pa.array([b"k"])})
    none = {"value": value, "headers": pa.array([None], HEADERS)}
    assert digest(none) == digest({"value": value, "headers": pa.array([[]], HEADERS)})


def test_what_is_not_written_does_not_count():
    def told(row):
        return digest_of(pa.record_batch(row), with_topic=False, with_timestamp=False)

    other = {"topic": pa.array(["u"]), "timestamp": pa.array([1], pa.timestamp("us", tz="UTC"))}
    assert told(ROW | other) == told(ROW)


def test_tails_that_change_places_are_seen():
    """A sum of plain words would not notice."""
    one = {"value": pa.array([b"aaaaaaaa11111111", b"bbbbbbbb22222222"])}
    two = {"value": pa.array([b"aaaaaaaa22222222", b"bbbbbbbb11111111"])}
    assert digest(one) != digest(two)


def test_rows_of_all_lengths_are_cheap():
    """Wide of the mark: it takes about 0.3 us a row on an idle core."""
    choice = random.Random(1)
    values = [choice.randbytes(choice.randint(0, 400)) for _ in range(50_000)]
    batch = pa.record_batch({"value": pa.array(values, pa.binary())})
    began = time.process_time()
    digest(batch)
    assert time.process_time() - began < 50_000 * 5e-6

"""The state machine of a transactional id, without IO."""

from __future__ import annotations

import pytest

from ottla.coordinator.transactions import transaction as transactions
from ottla.coordinator.transactions.records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla.coordinator.transactions.transaction import (
    STATE_NAMES,
    VALID_PREVIOUS,
    State,
    Step,
    Transaction,
)
from ottla.coordinator.versioned import RecordFormatError
from ottla.errors import ErrorCode, InvariantViolated
from ottla.types import TopicPartition

TP = TopicPartition("t", 0)
OTHER = TopicPartition("a", 3)
ENDED = {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}
# The table of FACTS, written out once more: which state may come from which.
EXPECTED = {
    State.EMPTY: ENDED,
    State.ONGOING: ENDED | {State.ONGOING},
    State.PREPARE_COMMIT: {State.ONGOING},
    State.PREPARE_ABORT: {State.ONGOING, State.PREPARE_EPOCH_FENCE},
    State.COMPLETE_COMMIT: {State.PREPARE_COMMIT},
    State.COMPLETE_ABORT: {State.PREPARE_ABORT},
    State.DEAD: ENDED,
    State.PREPARE_EPOCH_FENCE: {State.ONGOING},
}


def in_state(state: State, **changes: object) -> Transaction:
    given = {"producer_id": 7, "producer_epoch": 0, "timeout_ms": 1000, "start_ms": 50}
    return Transaction("id", state=state, **{**given, **changes})  # type: ignore[arg-type]


def prepare(transaction: Transaction, state: State) -> None:
    match state:
        case State.EMPTY:
            transaction.prepare_new_epoch(1000, None, 1)
        case State.ONGOING:
            transaction.prepare_partitions([TP], 1)
        case State.PREPARE_COMMIT | State.PREPARE_ABORT:
            transaction.prepare_end(commit=state is State.PREPARE_COMMIT, now_ms=1)
        case State.DEAD:
            transaction.prepare_dead()
        case _:
            raise AssertionError(state)


@pytest.mark.parametrize("after", list(State))
@pytest.mark.parametrize("before", list(State))
def test_all_pairs_of_states(before: State, after: State) -> None:
    assert (before in VALID_PREVIOUS[after]) == (before in EXPECTED[after])


@pytest.mark.parametrize(
    "after",
    [State.EMPTY, State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.DEAD],
)
@pytest.mark.parametrize("before", list(State))
def test_steps_keep_to_the_table(before: State, after: State) -> None:
    transaction = in_state(before)
    if before in EXPECTED[after]:
        prepare(transaction, after)
        assert transaction.pending is after
    else:
        with pytest.raises(InvariantViolated):
            prepare(transaction, after)


def test_a_life() -> None:
    transaction = Transaction("id", 7)
    first = transaction.prepare_new_epoch(1000, None, 10)
    assert isinstance(first, Step)
    transaction.complete(first)
    assert (transaction.producer_epoch, transaction.state) == (0, State.EMPTY)
    transaction.complete(transaction.prepare_partitions([TP], 20))
    transaction.complete(transaction.prepare_partitions([OTHER], 30))
    assert (transaction.start_ms, transaction.update_ms) == (20, 30)
    assert transaction.partitions == {TP, OTHER}
    transaction.complete(transaction.prepare_end(commit=True, now_ms=40))
    done = transaction.prepare_complete(50)
    assert transaction.partitions == {TP, OTHER}, "until the markers are out"
    transaction.complete(done)
    assert (transaction.state, transaction.partitions) == (State.COMPLETE_COMMIT, frozenset())
    transaction.complete(transaction.prepare_partitions([TP], 60))
    assert transaction.start_ms == 60


def test_nothing_happens_while_a_step_is_pending() -> None:
    transaction = in_state(State.ONGOING)
    transaction.prepare_end(commit=True, now_ms=1)
    with pytest.raises(InvariantViolated):
        transaction.prepare_partitions([TP], 1)
    with pytest.raises(InvariantViolated):
        transaction.fence()
    with pytest.raises(InvariantViolated):
        transaction.complete(in_state(State.EMPTY).prepare_partitions([TP], 1))
    transaction.give_up()
    transaction.prepare_partitions([TP], 1)


def test_a_producer_that_continues_names_its_epoch() -> None:
    transaction = in_state(State.EMPTY, producer_epoch=4, last_producer_epoch=3)
    again = transaction.prepare_new_epoch(1000, 3, 1)
    assert isinstance(again, Step)
    assert (again.producer_epoch, again.last_producer_epoch) == (4, 3), "the same answer again"
    transaction.give_up()
    bumped = transaction.prepare_new_epoch(1000, 4, 1)
    assert isinstance(bumped, Step)
    assert (bumped.producer_epoch, bumped.last_producer_epoch) == (5, 4)
    transaction.give_up()
    assert transaction.prepare_new_epoch(1000, 2, 1) is ErrorCode.PRODUCER_FENCED
    fresh = transaction.prepare_new_epoch(1000, None, 1)
    assert isinstance(fresh, Step)
    assert (fresh.producer_epoch, fresh.last_producer_epoch) == (5, -1)


def test_a_used_up_producer_id_is_replaced_and_the_call_can_be_repeated() -> None:
    transaction = in_state(State.EMPTY, producer_epoch=32766)
    assert transactions.rotates_producer(transaction, None)
    assert transactions.rotates_producer(transaction, 32766)
    assert not transactions.rotates_producer(transaction, 32765)
    assert transaction.prepare_new_epoch(1000, 32765, 1) is ErrorCode.PRODUCER_FENCED
    transaction.complete(transaction.prepare_new_producer(8, 1000, 1, keep_last_epoch=True))
    assert (transaction.producer_id, transaction.producer_epoch) == (8, 0)
    assert transactions.check_init(transaction, 7, 32766) is ErrorCode.NONE
    assert transactions.check_init(transaction, 7, 5) is ErrorCode.PRODUCER_FENCED
    again = transaction.prepare_new_epoch(1000, 32766, 1)
    assert isinstance(again, Step)
    assert (again.producer_id, again.producer_epoch) == (8, 0)


def test_a_fence_that_the_log_refused_is_not_raised_twice() -> None:
    transaction = in_state(State.ONGOING, producer_epoch=3)
    transaction.fence()
    assert transaction.producer_epoch == 4
    transaction.prepare_end(commit=False, now_ms=1)
    transaction.give_up()
    transaction.fence_failed = True
    transaction.fence()
    assert transaction.producer_epoch == 4
    transaction.complete(transaction.prepare_end(commit=False, now_ms=1))
    transaction.complete(transaction.prepare_complete(1))
    following = transaction.prepare_new_epoch(1000, None, 1)
    assert isinstance(following, Step)
    assert following.producer_epoch == 5


@pytest.mark.parametrize(
    ("state", "commit", "answer"),
    [
        (State.ONGOING, True, None),
        (State.ONGOING, False, None),
        (State.COMPLETE_COMMIT, True, ErrorCode.NONE),
        (State.COMPLETE_COMMIT, False, ErrorCode.INVALID_TXN_STATE),
        (State.COMPLETE_ABORT, False, ErrorCode.NONE),
        (State.COMPLETE_ABORT, True, ErrorCode.INVALID_TXN_STATE),
        (State.PREPARE_COMMIT, True, ErrorCode.CONCURRENT_TRANSACTIONS),
        (State.PREPARE_COMMIT, False, ErrorCode.INVALID_TXN_STATE),
        (State.PREPARE_ABORT, False, ErrorCode.CONCURRENT_TRANSACTIONS),
        (State.PREPARE_ABORT, True, ErrorCode.INVALID_TXN_STATE),
        (State.EMPTY, True, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_answers_to_the_end_of_a_transaction(
    state: State, commit: bool, answer: ErrorCode | None
) -> None:
    assert transactions.check_end(in_state(state), commit=commit) is answer


def test_time_outs_and_expiry() -> None:
    transaction = in_state(State.ONGOING)
    assert not transaction.timed_out(1050)
    assert transaction.timed_out(1051)
    transaction.prepare_end(commit=True, now_ms=1)
    assert not transaction.timed_out(1051)
    ended = in_state(State.COMPLETE_ABORT, update_ms=100)
    assert not ended.expired(199, 100)
    assert ended.expired(200, 100)
    assert not in_state(State.ONGOING, update_ms=100).expired(200, 100)


def test_every_state_has_a_name() -> None:
    assert set(STATE_NAMES) == set(State)


# --- the log ------------------------------------------------------------------------------------


def test_key_and_value_in_kafkas_bytes() -> None:
    assert encode_key("ab").hex() == "0000" + "0002" + "6162"
    step = in_state(State.ONGOING, partitions=frozenset({TP})).prepare_end(commit=True, now_ms=9)
    assert encode_value(step).hex() == "".join(
        [
            "0000",
            "0000000000000007",
            "0000",
            "000003e8",
            "02",
            "00000001" + "0001" + "74" + "00000001" + "00000000",
            "0000000000000009",
            "0000000000000032",
        ]
    )


def test_values_come_back() -> None:
    partitions = frozenset({TP, OTHER, TopicPartition("t", 5)})
    step = in_state(State.ONGOING, partitions=partitions).prepare_end(commit=False, now_ms=9)
    loaded = decode_value("id", encode_value(step))
    assert (loaded.state, loaded.partitions) == (State.PREPARE_ABORT, partitions)
    assert (loaded.producer_id, loaded.producer_epoch, loaded.timeout_ms) == (7, 0, 1000)
    assert (loaded.start_ms, loaded.update_ms, loaded.pending) == (50, 9, None)
    assert decode_key(encode_key("id")) == "id"


def test_an_empty_transaction_has_no_list_of_partitions() -> None:
    step = Transaction("id", 7).prepare_new_epoch(1000, None, 1)
    assert isinstance(step, Step)
    assert encode_value(step)[17:21] == b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\x63\0", b"\0\0\0", b"\0\0" + bytes(14) + b"\x63"]
)
def test_damaged_values_are_refused(data: bytes) -> None:
    with pytest.raises(RecordFormatError):
        decode_value("id", data)


def test_keys_of_later_versions_are_skipped() -> None:
    assert decode_key(b"\0\x01whatever") is None
    with pytest.raises(RecordFormatError):
        decode_key(b"\0")
    with pytest.raises(RecordFormatError):
        decode_key(b"\0\0\0\x09ab")

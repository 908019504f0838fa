"""AlterUserScramCredentials: every mistake, and what is left of a user's configs."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.security.sasl.scram import credential_from_text
from ottla.security.scram_alterations import (
    Deletion,
    Upsertion,
    altered,
    described,
    refused_users,
)

GOOD = Upsertion("a", 1, 4096, b"salt", b"salted")
OLD = {
    "producer_byte_rate": "1",
    "SCRAM-SHA-512": "salt=YQ==,stored_key=Yg==,server_key=Yw==,iterations=5000",
}


def _codes(
    upsertions: list[Upsertion], deletions: list[Deletion]
) -> dict[str, tuple[ErrorCode, str]]:
    return {
        name: (error.code, str(error))
        for name, error in refused_users(upsertions, deletions).items()
    }


EMPTY = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
UNKNOWN = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
FEW = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
MANY = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
TWICE = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)


@pytest.mark.parametrize(
    ("upsertions", "deletions", "refused"),
    [
        ([GOOD], [], {}),
        ([GOOD, GOOD._replace(mechanism=2)], [], {}),
        ([GOOD._replace(iterations=16384)], [Deletion("b", 2)], {}),
        ([GOOD._replace(name="")], [], {"": EMPTY}),
        ([], [Deletion("", 0)], {"": EMPTY}),
        ([GOOD._replace(mechanism=0)], [], {"a": UNKNOWN}),
        ([], [Deletion("a", 3)], {"a": UNKNOWN}),
        ([GOOD._replace(iterations=4095)], [], {"a": FEW}),
        ([GOOD._replace(iterations=-1)], [], {"a": FEW}),
        ([GOOD._replace(iterations=16385)], [], {"a": MANY}),
        ([GOOD, GOOD], [], {"a": TWICE}),
        ([GOOD], [Deletion("a", 1)], {"a": TWICE}),
        ([], [Deletion("a", 1), Deletion("a", 1), Deletion("b", 1)], {"a": TWICE}),
        # What is said of an upsertion wins, and a mistake wins over a repetition.
        ([GOOD._replace(iterations=1)] * 2, [Deletion("a", 9)], {"a": FEW}),
    ],
)
def test_refusals(
    upsertions: list[Upsertion],
    deletions: list[Deletion],
    refused: dict[str, tuple[ErrorCode, str]],
) -> None:
    assert _codes(upsertions, deletions) == refused


def test_other_configs_stay() -> None:
    new = altered(OLD, [GOOD], [Deletion("a", 2)])
    assert new.keys() == {"producer_byte_rate", "SCRAM-SHA-256"}
    assert credential_from_text(new["SCRAM-SHA-256"]).iterations == 4096
    assert described(altered(OLD, [GOOD], [])) == [(1, 4096), (2, 5000)]


def test_what_is_not_there_cannot_be_deleted() -> None:
    with pytest.raises(KafkaError, match="Attempt to delete a user credential that does not exist"):
        altered(OLD, [GOOD._replace(mechanism=2)], [Deletion("a", 1)])


def test_an_empty_password() -> None:
    with pytest.raises(KafkaError) as caught:
        altered(OLD, [GOOD._replace(salted_password=b"")], [])
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_credential_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="a SCRAM credential has"):
        described({"SCRAM-SHA-256": "garbage"})

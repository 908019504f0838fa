"""What AlterUserScramCredentials may ask for, and what it makes of a user's configs (KIP-554).

The checks, their order, codes and texts are those of ZkAdminManager: a user with one mistake keeps
all of its credentials, the other users of the request are not concerned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.security.sasl.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    credential_from_text,
    credential_of,
    credential_to_text,
)

# Mechanisms as requests number them.
MECHANISM_NUMBERS = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
_NAMES = {number: name for name, number in MECHANISM_NUMBERS.items()}
EMPTY_NAME = "Username must not be empty"


class Upsertion(NamedTuple):
    """A new credential; the password was salted by the client."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class Deletion(NamedTuple):
    name: str
    mechanism: int


def refused_users(
    upsertions: Sequence[Upsertion], deletions: Sequence[Deletion]
) -> dict[str, KafkaError]:
    """The users that are refused for what the request says of them."""
    refused: dict[str, KafkaError] = {}
    for deletion in deletions:
        error = _problem(deletion.name, deletion.mechanism)
        if error is not None:
            refused[deletion.name] = error
    for upsertion in upsertions:
        error = _problem(upsertion.name, upsertion.mechanism) or _iterations_problem(upsertion)
        if error is not None:
            refused[upsertion.name] = error
    times = Counter((item.name, item.mechanism) for item in upsertions)
    times.update((item.name, item.mechanism) for item in deletions)
    for (name, _), count in times.items():
        if count > 1 and name not in refused:
            refused[name] = KafkaError(
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
    return refused


def _problem(name: str, mechanism: int) -> KafkaError | None:
    if not name:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, EMPTY_NAME)
    if mechanism not in _NAMES:
        return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def _iterations_problem(upsertion: Upsertion) -> KafkaError | None:
    if upsertion.iterations > MAX_ITERATIONS:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if upsertion.iterations < MIN_ITERATIONS:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    return None


def altered(
    configs: Mapping[str, str], upsertions: Iterable[Upsertion], deletions: Iterable[Deletion]
) -> dict[str, str]:
    """One user's configs after all that the request asks for this user; raises KafkaError."""
    result = dict(configs)
    for deletion in deletions:
        if result.pop(_NAMES[deletion.mechanism], None) is None:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
    for upsertion in upsertions:
        if not upsertion.salted_password:
            # Java has no key without a byte; that is an unforeseen error there.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        mechanism = _NAMES[upsertion.mechanism]
        credential = credential_of(
            mechanism, upsertion.salt, upsertion.salted_password, upsertion.iterations
        )
        result[mechanism] = credential_to_text(credential)
    return result


def described(configs: Mapping[str, str]) -> list[tuple[int, int]]:
    """Number of the mechanism and iterations of each credential; raises ValueError for one that
    cannot be read."""
    return [
        (number, credential_from_text(configs[mechanism]).iterations)
        for mechanism, number in MECHANISM_NUMBERS.items()
        if mechanism in configs
    ]

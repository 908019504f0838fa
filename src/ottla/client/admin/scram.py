"""SCRAM credentials of users: DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554).

Passwords are salted here: no broker ever sees one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.client.admin.session import AdminSession, error_or_none
from ottla.client.cluster import response_error
from ottla.errors import KafkaError
from ottla.security.sasl.scram import MAX_ITERATIONS, salted_password
from ottla.security.scram_alterations import MECHANISM_NUMBERS
from ottla.wire import messages as m

_SALT_BYTES = 16
_MECHANISMS = {number: name for name, number in MECHANISM_NUMBERS.items()}


class NewScramCredential(NamedTuple):
    """A password for one mechanism."""

    mechanism: str
    iterations: int
    password: str

    def __repr__(self) -> str:
        return f"NewScramCredential({self.mechanism!r}, {self.iterations}, ...)"


class ScramCalls(AdminSession):
    async def describe_user_scram_credentials(
        self, users: Iterable[str] = ()
    ) -> dict[str, dict[str, int] | KafkaError]:
        """Iterations by mechanism, of these users or of all that have a credential."""
        user_class = m.DescribeUserScramCredentialsRequest.UserName
        request = m.DescribeUserScramCredentialsRequest(
            users=[user_class(name=name) for name in users] or None
        )
        answer = await self.cluster.send_to_any(request, timeout_ms=self._timeout_ms)
        if answer.error_code:
            raise response_error(answer.error_code, answer.error_message)
        return {
            result.user: response_error(result.error_code, result.error_message)
            if result.error_code
            else {
                _MECHANISMS.get(info.mechanism, "UNKNOWN"): info.iterations
                for info in result.credential_infos
            }
            for result in answer.results
        }

    async def alter_user_scram_credentials(
        self,
        credentials: Mapping[str, Sequence[NewScramCredential]],
        removed: Mapping[str, Sequence[str]] | None = None,
    ) -> dict[str, KafkaError | None]:
        """Sets credentials of users, and removes those of the named mechanisms."""
        request_class = m.AlterUserScramCredentialsRequest
        request = request_class(
            deletions=[
                request_class.ScramCredentialDeletion(
                    name=user, mechanism=MECHANISM_NUMBERS[mechanism]
                )
                for user, mechanisms in (removed or {}).items()
                for mechanism in mechanisms
            ],
            upsertions=[
                _upsertion(user, credential)
                for user, own in credentials.items()
                for credential in own
            ],
        )
        answer = await self._to_controller(request, lambda answer: answer.results)
        return {
            result.user: error_or_none(result.error_code, result.error_message)
            for result in answer.results
        }


def _upsertion(
    user: str, new: NewScramCredential
) -> m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    # Not from the runtime: a salt decides nothing that a simulation would have to repeat.
    salt = secrets.token_bytes(_SALT_BYTES)
    return m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=MECHANISM_NUMBERS[new.mechanism],
        iterations=new.iterations,
        salt=salt,
        # A number of rounds that no broker takes is not worth computing: the broker says so.
        salted_password=salted_password(
            new.mechanism, new.password, salt, min(max(new.iterations, 1), MAX_ITERATIONS)
        ),
    )

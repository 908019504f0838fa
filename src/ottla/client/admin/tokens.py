"""Delegation tokens: create, renew, expire and describe them (KIP-48). Any broker can be asked."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple

from ottla.client.admin.session import AdminSession
from ottla.client.cluster import response_error
from ottla.metadata.token_znodes import DelegationToken
from ottla.wire import messages as m

# Version 3 has tokens for other users; what it says of them is left out here.
_MAX_VERSION = 2


class TokenAndSecret(NamedTuple):
    """`secret` is the token's HMAC: whoever has it is the owner."""

    token: DelegationToken
    secret: bytes

    @property
    def password(self) -> str:
        """What a client shows for it."""
        return base64.b64encode(self.secret).decode()

    def __repr__(self) -> str:
        return f"TokenAndSecret({self.token!r}, ...)"


class TokenCalls(AdminSession):
    async def create_token(
        self, renewers: Iterable[tuple[str, str]], max_lifetime_ms: int
    ) -> TokenAndSecret:
        """For whoever asks. Renewers are types and names."""
        named = tuple(renewers)
        renewer_class = m.CreateDelegationTokenRequest.CreatableRenewers
        answer = await self._ask(
            m.CreateDelegationTokenRequest(
                renewers=[
                    renewer_class(principal_type=kind, principal_name=name) for kind, name in named
                ],
                max_lifetime_ms=max_lifetime_ms,
            )
        )
        token = DelegationToken(
            answer.token_id,
            f"{answer.principal_type}:{answer.principal_name}",
            tuple(f"{kind}:{name}" for kind, name in named),
            answer.issue_timestamp_ms,
            answer.max_timestamp_ms,
            answer.expiry_timestamp_ms,
        )
        return TokenAndSecret(token, bytes(answer.hmac))

    async def renew_token(self, secret: bytes, period_ms: int) -> int:
        """The time of its end."""
        answer = await self._ask(
            m.RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
        )
        return int(answer.expiry_timestamp_ms)

    async def expire_token(self, secret: bytes, period_ms: int) -> int:
        """The time of its end: now where the period is negative."""
        answer = await self._ask(
            m.ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
        )
        return int(answer.expiry_timestamp_ms)

    async def describe_tokens(
        self, owners: Iterable[tuple[str, str]] | None = None
    ) -> list[TokenAndSecret]:
        """Those that the user may see, of the named owners and renewers or of all."""
        owner_class = m.DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
        wanted = None
        if owners is not None:
            wanted = [
                owner_class(principal_type=kind, principal_name=name) for kind, name in owners
            ]
        answer = await self._ask(m.DescribeDelegationTokenRequest(owners=wanted))
        return [TokenAndSecret(_token(found), bytes(found.hmac)) for found in answer.tokens]

    async def _ask(self, request: Any) -> Any:
        answer = await self.cluster.send_to_any(
            request, timeout_ms=self._timeout_ms, max_version=_MAX_VERSION
        )
        if answer.error_code:
            raise response_error(answer.error_code)
        return answer


def _token(found: Any) -> DelegationToken:
    return DelegationToken(
        found.token_id,
        f"{found.principal_type}:{found.principal_name}",
        tuple(f"{each.principal_type}:{each.principal_name}" for each in found.renewers),
        found.issue_timestamp,
        found.max_timestamp,
        found.expiry_timestamp,
    )

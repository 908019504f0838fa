"""One request as its handler sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.bounds.turns import Turns
    from ottla.broker.context.services import BrokerServices
    from ottla.security.authorizer import AclAuthorizer
    from ottla.wire.framing import RequestHeader


class CloseConnection(OttlaError):
    """Raised where the only answer is to close the connection; the text goes to the log."""


@dataclass(slots=True)
class RequestContext:
    """A request's envelope and the broker's services; a `Requester` for `security/rights.py`."""

    services: BrokerServices
    header: RequestHeader
    # Kafka's name of the request.
    api_name: str
    listener: str
    client_host: str
    principal: str = "User:ANONYMOUS"
    # The user showed a delegation token.
    by_token: bool = False
    authorizer: AclAuthorizer | None = None
    # Whether brokers connect to this listener, so that this may be one; and the controller.
    is_from_peers: bool = True
    is_from_controller: bool = True
    # Younger ones have higher numbers, on whatever listener.
    connection: int = 0

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def turns(self) -> Turns:
        """For loops over what the client listed."""
        return self.services.turns

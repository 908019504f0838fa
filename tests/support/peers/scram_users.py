"""Brokers that ask for SCRAM, and requests that alter its users, right and wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.security.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512, salted_password
from ottla.wire import messages as m
from tests.support.peers import acl_matrix

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS = (SCRAM_SHA_256, SCRAM_SHA_512)
_NUMBERS = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
Request = m.AlterUserScramCredentialsRequest
Describe = m.DescribeUserScramCredentialsRequest


def broker_settings(internal_port: int, clients_port: int) -> dict[str, str]:
    """Brokers show themselves to each other as `broker`, by SCRAM-SHA-512; the other listener, in
    the clear, is for looking at them. Clients have PLAIN, too."""
    plain = acl_matrix.broker_settings(internal_port, clients_port)
    return plain | {
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": SCRAM_SHA_512,
        "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{MODULE} required;",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": (
            f'{MODULE} required username="broker" password="broker-secret";'
        ),
        "super.users": "User:admin;User:broker;User:ANONYMOUS",
        "offsets.topic.replication.factor": "1",
    }


def client_file(folder: Path, mechanism: str, user: str, password: str) -> Path:
    """What Java's tools take as --command-config."""
    path = folder / f"{user}-{mechanism}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={MODULE} required username="{user}" password="{password}";\n'
    )
    return path


def upsertion(
    name: str,
    mechanism: int = 1,
    *,
    iterations: int = 4096,
    salt: bytes = b"salt",
    salted: bytes = b"salted",
) -> Request.ScramCredentialUpsertion:
    return Request.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def with_password(name: str, mechanism: str, password: str) -> Request.ScramCredentialUpsertion:
    salted = salted_password(mechanism, password, b"salt", 4096)
    return upsertion(name, _NUMBERS[mechanism], salted=salted)


def deletion(name: str, mechanism: int = 1) -> Request.ScramCredentialDeletion:
    return Request.ScramCredentialDeletion(name=name, mechanism=mechanism)


def requests() -> Iterator[Request | Describe]:
    """In this order, on a cluster without users of these names."""
    user = Describe.UserName
    yield Request(upsertions=[upsertion("a"), upsertion("a", 2, iterations=16384)])
    yield Request(upsertions=[upsertion("CN=x,O=y"), upsertion("b~ /*", salt=b"")])
    yield Describe(users=[user(name=name) for name in ("a", "CN=x,O=y", "b~ /*", "nobody")])
    yield Describe(users=[user(name="")])
    yield Describe(users=[user(name="a"), user(name="a"), user(name="nobody"), user(name="")])
    yield Request()
    for wrong in (
        upsertion(""),
        upsertion("w", 0),
        upsertion("w", 3),
        upsertion("w", -1),
        upsertion("w", iterations=4095),
        upsertion("w", iterations=16385),
        upsertion("w", iterations=0),
        upsertion("w", iterations=-(2**31)),
        upsertion("w", salted=b""),
    ):
        yield Request(upsertions=[wrong])
        if wrong.salted_password:
            # The others of a request are not concerned.
            yield Request(upsertions=[upsertion("good"), wrong])
    for gone in (deletion(""), deletion("a", 0), deletion("a", 9), deletion("nobody")):
        yield Request(deletions=[gone])
        yield Request(deletions=[gone], upsertions=[upsertion("good")])
    yield Request(upsertions=[upsertion("a"), upsertion("a")])
    yield Request(upsertions=[upsertion("a")], deletions=[deletion("a")])
    yield Request(upsertions=[upsertion("a", 1, iterations=1)], deletions=[deletion("a", 7)])
    yield Request(upsertions=[upsertion("", 9)], deletions=[deletion("", 9)])
    yield Request(deletions=[deletion("good")])
    # Both are refused: one of them is not there.
    yield Request(deletions=[deletion("b~ /*", 1), deletion("b~ /*", 2)])
    yield Request(upsertions=[upsertion("a", 1, iterations=5000)], deletions=[deletion("a", 2)])
    yield Describe(users=[user(name=name) for name in ("a", "good", "b~ /*", "w")])


# First tokens of SCRAM-SHA-256, none of which gets anybody in.
FIRST_TOKENS = (
    b"",
    b"n",
    b"n,,n=nobody,r=c",
    b"n,,n=a",
    b"y,,n=a,r=c",
    b"p=tls-unique,,n=a,r=c",
    b"n,a=other,n=a,r=c",
    b"n,,n=a=b,r=c",
    b"n,,n=\xc3\xa9,r=c",
    b"n,,n=a,r=c,tokenauth=true",
    b"\x00a\x00salted",
)
# Second tokens; NONCE stands for the one that the server made.
FINAL_TOKENS = (
    b"",
    b"c=biws,r=NONCE",
    b"c=biws,r=NONCE,p=" + b"A" * 43 + b"=",
    b"c=biws,r=other,p=" + b"A" * 43 + b"=",
)

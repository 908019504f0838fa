"""Options that were given and change nothing: they are named, once, instead of passed over.

The official connector hands every `kafka.*` setting to a Kafka client, which logs the names it does
not know. Here a setting counts as used when it was read while the options were parsed.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.config.definitions import nearest_name

logger = logging.getLogger("ottla.spark")

PREFIX = "kafka."
# Spark's BlockManager has folders of this name for each application, and removes them at its end.
_LOCAL_FOLDER = "blockmgr-"
_LOCAL_FOLDERS_VARIABLE = "SPARK_LOCAL_DIRS"
_KEPT_APART_BY = ("subscribe", "subscribepattern", "assign", "topic", "checkpointlocation")

# What they ask for is done without them.
_SERVED = frozenset(
    {
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.client.callback.handler.class",
    }
)
# One set of settings is often given to both a source and a sink, each of which uses its own.
_OF_EITHER_SIDE = frozenset(
    {
        "acks",
        "batch.size",
        "check.crcs",
        "compression.type",
        "isolation.level",
        "max.partition.fetch.bytes",
        "transaction.timeout.ms",
    }
)
# Those that say what is done in any case.
_AS_IT_IS = {"enable.idempotence": "true", "group.protocol": "classic"}

# ConsumerConfig.configNames() and ProducerConfig.configNames() of Kafka 3.9, Spark's own.
_NAMES = """
acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter
auto.offset.reset batch.size bootstrap.servers buffer.memory check.crcs client.dns.lookup
client.id client.rack compression.gzip.level compression.lz4.level compression.type
compression.zstd.level connections.max.idle.ms default.api.timeout.ms delivery.timeout.ms
enable.auto.commit enable.idempotence enable.metrics.push exclude.internal.topics
fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level key.deserializer
key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection
max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size
metadata.max.age.ms metadata.max.idle.ms metadata.recovery.strategy metric.reporters
metrics.num.samples metrics.recording.level metrics.sample.window.ms
partition.assignment.strategy partitioner.adaptive.partitioning.enable
partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries
retry.backoff.max.ms retry.backoff.ms sasl.client.callback.handler.class sasl.jaas.config
sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
sasl.mechanism sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes
session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password ssl.truststore.type transaction.timeout.ms transactional.id
value.deserializer value.serializer
"""
CLIENT_SETTINGS = frozenset(_NAMES.split())


class Unused(NamedTuple):
    """Names as they were given, in lower case: without effect here, and unknown to Kafka."""

    without_effect: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = []
        if self.without_effect:
            parts.append(f"without effect here: {', '.join(self.without_effect)}")
        if self.unknown:
            words = ", ".join(_with_hint(name) for name in self.unknown)
            parts.append(f"unknown to Kafka's clients: {words}")
        return "; ".join(parts)


NOTHING_UNUSED = Unused()


def _with_hint(name: str) -> str:
    nearest = nearest_name(name.removeprefix(PREFIX), CLIENT_SETTINGS)
    return f"{name} (did you mean {PREFIX}{nearest}?)" if nearest else name


def find_unused(
    given: Mapping[str, str], read: Iterable[str], other_options: Iterable[str]
) -> Unused:
    """`given` in lower case; `read` are the settings of Kafka that were looked at, without the
    prefix; `other_options` are names of options that this kind of query has no use for."""
    used = {*read, *_SERVED, *_OF_EITHER_SIDE}
    settings = sorted(
        name
        for name, value in given.items()
        if name.startswith(PREFIX)
        and name.removeprefix(PREFIX) not in used
        and _AS_IT_IS.get(name.removeprefix(PREFIX)) != value.strip().lower()
    )
    others = [name for name in other_options if name.lower() in given]
    known = [name for name in settings if name.removeprefix(PREFIX) in CLIENT_SETTINGS]
    return Unused((*known, *others), tuple(name for name in settings if name not in known))


def announce(unused: Unused, given: Mapping[str, str]) -> None:
    """One warning for each query, in whichever of Spark's processes is the first to see it."""
    if not any(unused):
        return
    lower = {name.lower(): value for name, value in given.items()}
    message = f"options of format ottla: {unused}"
    query = "\0".join((message, *(lower.get(name, "") for name in _KEPT_APART_BY)))
    if _is_first(f"ottla-options-{zlib.crc32(query.encode()):08x}"):
        logger.warning("%s", message)


def _is_first(mark: str) -> bool:
    """Spark makes a writer for every micro-batch, in any of several processes; what they share is
    the folder of their application."""
    folder = Path(os.environ.get(_LOCAL_FOLDERS_VARIABLE, "").split(",")[0])
    if not folder.name.startswith(_LOCAL_FOLDER):
        return True
    try:
        (folder / mark).touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:  # better twice than never
        pass
    return True

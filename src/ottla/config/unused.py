"""Kafka 2.8's broker configs without a meaning here, so that DescribeConfigs shows all of Kafka's.

Nothing reads them. In a file most are accepted with a warning (`table.WITHOUT_MEANING`), a
few are refused (`table.REPLACED`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.definitions import ConfigDef, parse_table

_DOCUMENTATION = "Known to Kafka; without effect here."
# Name, type and default as in `table.py`.
_TABLE = """
advertised.host.name Str null
advertised.port I null
alter.log.dirs.replication.quota.window.num I 11
alter.log.dirs.replication.quota.window.size.seconds I 1
client.quota.callback.class Cls null
delete.records.purgatory.purge.interval.requests I 1
fetch.purgatory.purge.interval.requests I 1000
host.name Str ""
kafka.metrics.polling.interval.secs I 10
kafka.metrics.reporters List ""
metrics.num.samples I 2
metrics.recording.level Str INFO
metrics.sample.window.ms L 30000
password.encoder.cipher.algorithm Str AES/CBC/PKCS5Padding
password.encoder.keyfactory.algorithm Str null
password.encoder.old.secret Pwd null
port I 9092
principal.builder.class Cls null pb
producer.purgatory.purge.interval.requests I 1000
replication.quota.window.num I 11
replication.quota.window.size.seconds I 1
sasl.client.callback.handler.class Cls null
sasl.kerberos.kinit.cmd Str /usr/bin/kinit pb
sasl.kerberos.min.time.before.relogin L 60000 pb
sasl.kerberos.principal.to.local.rules List DEFAULT pb
sasl.kerberos.service.name Str null pb
sasl.kerberos.ticket.renew.jitter D 0.05 pb
sasl.kerberos.ticket.renew.window.factor D 0.8 pb
sasl.login.callback.handler.class Cls null
sasl.login.class Cls null
sasl.login.refresh.buffer.seconds S 300 pb
sasl.login.refresh.min.period.seconds S 60 pb
sasl.login.refresh.window.factor D 0.8 pb
sasl.login.refresh.window.jitter D 0.05 pb
sasl.server.callback.handler.class Cls null
security.providers Str null
ssl.engine.factory.class Cls null pb
ssl.keymanager.algorithm Str SunX509 pb
ssl.protocol Str TLSv1.3 pb
ssl.provider Str null pb
ssl.secure.random.implementation Str null pb
ssl.trustmanager.algorithm Str PKIX pb
zookeeper.ssl.crl.enable B false
zookeeper.ssl.ocsp.enable B false
zookeeper.sync.time.ms I 2000
"""

# DynamicConfig.Broker: only ever in the store.
_RATES = """
leader.replication.throttled.rate L LMAX >=0
  Bytes per second that leaders may send to throttled replicas.
follower.replication.throttled.rate L LMAX >=0
  Bytes per second that throttled replicas may fetch.
replica.alter.log.dirs.io.max.bytes.per.second L LMAX >=0
  Bytes per second for moves between folders of this broker.
"""

_unused: dict[str, ConfigDef] | None = None
_rates: dict[str, ConfigDef] | None = None


def unused_definitions() -> Mapping[str, ConfigDef]:
    """Parsed on first use."""
    global _unused
    if _unused is None:
        rows = _TABLE.strip().splitlines()
        _unused = parse_table("\n".join(f"{row}\n  {_DOCUMENTATION}" for row in rows))
    return _unused


def dynamic_only_definitions() -> Mapping[str, ConfigDef]:
    """Configs that live in the store and never in a file; parsed on first use."""
    global _rates
    if _rates is None:
        _rates = parse_table(_RATES)
    return _rates

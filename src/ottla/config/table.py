"""Kafka 2.8's broker configs (KafkaConfig) as a table; `definitions.parse_table` says the form."""

BROKER_CONFIGS = """
zookeeper.connect Str null
  Hosts and chroot of the metadata store: host:port,host:port/chroot.
zookeeper.session.timeout.ms I 18000
  How long the store keeps the session of a broker it does not hear from.
zookeeper.connection.timeout.ms I null
  How long to wait for the first connection to the store; the session time-out when unset.
zookeeper.set.acl B false
  Whether znodes are made with ACLs that let nobody but the brokers change them.
ottla.zookeeper.digest.file Str null
  File with user:password, by which the broker proves to the store who it is (digest scheme).
zookeeper.max.in.flight.requests I 10 >=1
  Requests to the store that may be unanswered at once.
zookeeper.clientCnxnSocket Str null
  The class with which Java connects to the store; not used here.
zookeeper.ssl.cipher.suites List null
  Cipher suites towards the store.
zookeeper.ssl.client.enable B false
  Whether the store is spoken to with TLS.
zookeeper.ssl.enabled.protocols List null
  Versions of TLS towards the store; zookeeper.ssl.protocol when unset.
zookeeper.ssl.endpoint.identification.algorithm Str HTTPS
  HTTPS: the store's certificate is compared with its host; empty: not.
zookeeper.ssl.keystore.location Str null
  File with the key and certificate shown to the store.
zookeeper.ssl.keystore.password Pwd null
  Password of that file.
zookeeper.ssl.keystore.type Str null
  PEM or PKCS12; by the file's name when unset.
zookeeper.ssl.protocol Str TLSv1.2
  Version of TLS towards the store.
zookeeper.ssl.truststore.location Str null
  File with the certificates trusted in the store's place.
zookeeper.ssl.truststore.password Pwd null
  Password of that file.
zookeeper.ssl.truststore.type Str null
  PEM or PKCS12; by the file's name when unset.
broker.id.generation.enable B true
  Whether a broker with id -1 gets one from the store.
reserved.broker.max.id I 1000 >=0
  Highest id that may be set by hand; generated ones come after it.
broker.id I -1
  The broker's id; -1 asks the store for one.
background.threads I 10 >=1 cw
  Workers for background tasks.
request.timeout.ms I 30000
  How long the broker waits for an answer to a request of its own.
authorizer.class.name Str ""
  The authoriser; none when empty.
broker.rack Str null
  The rack of the broker, for placement and for reading from the nearest replica.
listeners Str null pb
  Where to listen: NAME://host:port,NAME://host:port.
advertised.listeners Str null pb
  What clients and other brokers are told to connect to; the listeners when unset.
listener.security.protocol.map Str \
PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL pb
  The security protocol of each listener name.
control.plane.listener.name Str null
  A listener for the controller's requests alone.
security.inter.broker.protocol Str PLAINTEXT
  Security protocol between brokers, where no listener name is given.
inter.broker.listener.name Str null
  Name of the listener that brokers use among themselves.
num.network.threads I 3 >=1 cw
  Workers that move bytes to and from sockets.
num.io.threads I 8 >=1 cw
  Workers that serve requests.
queued.max.requests I 500 >=1
  Requests that may wait before the broker stops reading.
queued.max.request.bytes L 268435456
  Memory of requests and of answers that are not taken, on all connections; no limit when not \
positive. One request of the largest size always fits. Kafka's default is -1.
socket.connection.setup.timeout.ms L 10000
  How long to wait for a connection to another broker.
socket.connection.setup.timeout.max.ms L 30000
  Upper bound of the connection time-out after repeated failures.
socket.send.buffer.bytes I 102400
  Send buffer of a socket; -1 leaves it to the system.
socket.receive.buffer.bytes I 102400
  Receive buffer of a socket; -1 leaves it to the system.
socket.request.max.bytes I 104857600 >=1
  Largest request that is accepted.
max.connections.per.ip I IMAX >=0 cw
  Connections from one address.
max.connections.per.ip.overrides Str "" cw
  Exceptions to it: host:count,host:count.
max.connections I IMAX >=0 cw
  Connections to the whole broker.
max.connection.creation.rate I IMAX >=0 cw
  New connections per second.
connections.max.idle.ms L 600000
  A connection without traffic is closed after this time.
connection.failed.authentication.delay.ms I 100 >=0
  Pause before a connection that failed to authenticate is closed.
connections.max.reauth.ms L 0
  A session must authenticate again after this time; 0 never.
sasl.server.max.receive.size I 524288
  Largest SASL token that is accepted.
ssl.client.auth Str none in:required,requested,none pb
  Whether clients must show a certificate.
ssl.cipher.suites List "" pb
  Cipher suites of TLS, by Java's or OpenSSL's names; all that OpenSSL has on when empty.
ssl.enabled.protocols List TLSv1.2,TLSv1.3 pb
  Versions of TLS that are spoken.
ssl.endpoint.identification.algorithm Str https pb
  https: brokers compare each other's certificates with the host; empty: not.
ssl.key.password Pwd null pb
  Password of the private key in a PEM key store.
ssl.keystore.certificate.chain Pwd null pb
  The certificate and those that signed it, as PEM text.
ssl.keystore.key Pwd null pb
  The private key, as PEM text.
ssl.keystore.location Str null pb
  File with the private key and its certificates.
ssl.keystore.password Pwd null pb
  Password of that file, where it is PKCS12.
ssl.keystore.type Str JKS pb
  PEM or PKCS12; as JKS a file may be PKCS12.
ssl.principal.mapping.rules Str DEFAULT
  How the name in a client's certificate becomes a principal.
ssl.truststore.certificates Pwd null pb
  Certificates that are trusted, as PEM text.
ssl.truststore.location Str null pb
  File with the certificates that are trusted; the system's when unset.
ssl.truststore.password Pwd null pb
  Password of that file, where it is PKCS12.
ssl.truststore.type Str JKS pb
  PEM or PKCS12; as JKS a file may be PKCS12.
sasl.mechanism.inter.broker.protocol Str GSSAPI pb
  SASL mechanism between brokers.
sasl.enabled.mechanisms List GSSAPI pb
  SASL mechanisms that clients may use.
sasl.jaas.config Pwd null pb
  Credentials of SASL, per listener and mechanism.
delegation.token.secret.key Pwd null
  The key that secrets of delegation tokens are made with, the same on all brokers; none: no tokens.
delegation.token.master.key Pwd null
  The same under its old name.
delegation.token.max.lifetime.ms L 604800000 >=1
  How long a delegation token can live, however often it is renewed.
delegation.token.expiry.time.ms L 86400000 >=1
  How long a delegation token lives unless it is renewed.
delegation.token.expiry.check.interval.ms L 3600000 >=1
  How often the controller removes delegation tokens that are over.
password.encoder.secret Pwd null
  Key for passwords that are kept in the store.
password.encoder.key.length I 128 >=8
  Bits of that key.
password.encoder.iterations I 4096 >=1024
  Rounds to derive that key.
log.dir Str /tmp/kafka-logs
  Data folder, where log.dirs is not set.
log.dirs Str null
  Data folders, comma-separated.
log.segment.bytes I 1073741824 >=14 cw
  Size of a segment file.
log.roll.ms L null cw
  Time before a new segment is begun; log.roll.hours when unset.
log.roll.hours I 168 >=1
  Time before a new segment is begun, in hours.
log.roll.jitter.ms L null cw
  Random part taken off the roll time; log.roll.jitter.hours when unset.
log.roll.jitter.hours I 0 >=0
  Random part taken off the roll time, in hours.
log.retention.ms L null cw
  How long records are kept; -1 forever; log.retention.minutes when unset.
log.retention.minutes I null
  How long records are kept, in minutes; log.retention.hours when unset.
log.retention.hours I 168
  How long records are kept, in hours.
log.retention.bytes L -1 cw
  Size a partition may reach before old segments go; -1 no limit.
log.retention.check.interval.ms L 300000 >=1
  How often retention is checked.
log.cleanup.policy List delete in:compact,delete cw
  Whether old segments are deleted, compacted, or both.
log.segment.delete.delay.ms L 60000 >=0 cw
  Pause between setting a file aside and removing it.
log.preallocate B false cw
  Whether a segment file is made at its full size.
num.replica.alter.log.dirs.threads I null
  Workers that move replicas between folders; one per folder when unset.
log.index.size.max.bytes I 10485760 >=4 cw
  Size of an index file.
log.index.interval.bytes I 4096 >=0 cw
  Bytes of log between two index entries.
log.flush.interval.messages L LMAX >=1 cw
  Records before a partition is flushed to disk.
log.flush.scheduler.interval.ms L LMAX
  How often it is checked whether a partition must be flushed.
log.flush.interval.ms L null cw
  Time before a partition is flushed; the scheduler's interval when unset.
log.flush.offset.checkpoint.interval.ms I 60000 >=0
  How often recovery points are written.
log.flush.start.offset.checkpoint.interval.ms I 60000 >=0
  How often log start offsets are written.
num.recovery.threads.per.data.dir I 1 >=1 cw
  Workers per folder that load logs at start and flush them at the end.
log.cleaner.threads I 1 >=0 cw
  Workers that compact.
log.cleaner.io.max.bytes.per.second D 1.7976931348623157E308 cw
  Bytes per second that compaction may read and write.
log.cleaner.dedupe.buffer.size L 134217728 cw
  Memory for the keys of one compaction, all workers together.
log.cleaner.io.buffer.size I 524288 >=0 cw
  Memory for reading and writing, all workers together.
log.cleaner.io.buffer.load.factor D 0.9 cw
  How full the key table may become.
log.cleaner.backoff.ms L 15000 >=0 cw
  Pause when there is nothing to compact.
log.cleaner.min.cleanable.ratio D 0.5 cw
  Share of uncompacted bytes that makes a log worth compacting.
log.cleaner.enable B true
  Whether compaction runs.
log.cleaner.delete.retention.ms L 86400000 cw
  How long tombstones and transaction markers stay after compaction.
log.cleaner.min.compaction.lag.ms L 0 cw
  Age below which a record is not compacted.
log.cleaner.max.compaction.lag.ms L LMAX cw
  Age by which a record is compacted.
message.max.bytes I 1048588 >=0 cw
  Largest record batch.
log.message.format.version Str 2.8-IV1 version
  Record format on disk; format 2 is always used.
log.message.timestamp.type Str CreateTime in:CreateTime,LogAppendTime cw
  Whether a record has its producer's or its broker's time.
log.message.timestamp.difference.max.ms L LMAX cw
  Allowed distance between the producer's time and the broker's.
log.message.downconversion.enable B true cw
  Whether old consumers may have records converted.
inter.broker.protocol.version Str 2.8-IV1 version
  Versions of the requests between brokers.
compression.type Str producer cw
  Codec that batches are stored with; producer keeps what was sent.
max.incremental.fetch.session.cache.slots I 1000 >=0
  Incremental fetch sessions that are kept.
fetch.max.bytes I 57671680 >=1024
  Most bytes in one answer to a fetch.
num.partitions I 1 >=1
  Partitions of a topic that names no number.
auto.create.topics.enable B true
  Whether a topic is made when a client asks about it.
min.insync.replicas I 1 >=1 cw
  In-sync replicas needed to accept a write with acks=all.
create.topic.policy.class.name Cls null
  A check of topics to be created: package.module:Class.
alter.config.policy.class.name Cls null
  A check of configs to be altered: package.module:Class.
default.replication.factor I 1
  Replicas of a topic that names no number.
unclean.leader.election.enable B false cw
  Whether a replica outside the in-sync set may lead when no other can.
delete.topic.enable B true
  Whether topics may be deleted.
replica.lag.time.max.ms L 30000
  A follower that has not caught up for so long leaves the in-sync set.
replica.socket.timeout.ms I 30000
  How long a follower waits for an answer.
replica.socket.receive.buffer.bytes I 65536
  Receive buffer of a follower's socket.
replica.fetch.max.bytes I 1048576 >=0
  Bytes per partition that a follower asks for.
replica.fetch.wait.max.ms I 500
  How long a leader may hold a follower's fetch.
replica.fetch.backoff.ms I 1000 >=0
  Pause of a follower after an error.
replica.fetch.min.bytes I 1
  Bytes a leader gathers before it answers a follower.
replica.fetch.response.max.bytes I 10485760 >=0
  Bytes of a whole answer to a follower.
num.replica.fetchers I 1 cw
  Fetchers per leader broker.
replica.high.watermark.checkpoint.interval.ms L 5000
  How often high watermarks are written.
replica.selector.class Str null
  How the replica that a consumer reads from is chosen; the leader when unset.
controller.socket.timeout.ms I 30000
  How long the controller waits for a broker's answer.
auto.leader.rebalance.enable B true
  Whether leadership returns to preferred replicas by itself.
leader.imbalance.per.broker.percentage I 10
  Share of a broker's partitions led elsewhere that triggers it.
leader.imbalance.check.interval.seconds L 300
  How often the share is checked.
controlled.shutdown.max.retries I 3
  Attempts to hand leadership over before stopping.
controlled.shutdown.retry.backoff.ms L 5000
  Pause between the attempts.
controlled.shutdown.enable B true
  Whether a stopping broker hands its leadership over first.
group.min.session.timeout.ms I 6000
  Shortest session time-out a group member may ask for.
group.max.session.timeout.ms I 1800000
  Longest session time-out a group member may ask for.
group.initial.rebalance.delay.ms I 3000
  Wait for more members before a new group is balanced.
group.max.size I IMAX >=1
  Members of one group.
offset.metadata.max.bytes I 4096
  Size of the note stored with a committed offset.
offsets.load.buffer.size I 5242880 >=1
  Bytes read at once when committed offsets are loaded.
offsets.topic.replication.factor S 3 >=1
  Replicas of the offsets topic.
offsets.topic.num.partitions I 50 >=1
  Partitions of the offsets topic.
offsets.topic.segment.bytes I 104857600 >=1
  Segment size of the offsets topic.
offsets.topic.compression.codec I 0
  Codec of the offsets topic; 0 none.
offsets.retention.minutes I 10080 >=1
  How long offsets of a group without members are kept.
offsets.retention.check.interval.ms L 600000 >=1
  How often they are checked.
offsets.commit.timeout.ms I 5000 >=1
  How long an offset commit waits for its replicas.
offsets.commit.required.acks S -1
  Acknowledgements needed for an offset commit.
transactional.id.expiration.ms I 604800000 >=1
  A transactional id that is not used for so long is forgotten.
transaction.max.timeout.ms I 900000 >=1
  Longest time-out a transaction may ask for.
transaction.state.log.min.isr I 2 >=1
  In-sync replicas the transaction topic needs.
transaction.state.log.load.buffer.size I 5242880 >=1
  Bytes read at once when transactions are loaded.
transaction.state.log.replication.factor S 3 >=1
  Replicas of the transaction topic.
transaction.state.log.num.partitions I 50 >=1
  Partitions of the transaction topic.
transaction.state.log.segment.bytes I 104857600 >=1
  Segment size of the transaction topic.
transaction.abort.timed.out.transaction.cleanup.interval.ms I 10000 >=1
  How often transactions past their time-out are aborted.
transaction.remove.expired.transaction.cleanup.interval.ms I 3600000 >=1
  How often expired transactional ids are removed.
metric.reporters List "" cw
  Extra reporters of metrics.
quota.producer.default L LMAX >=1
  Bytes per second a producer may send.
quota.consumer.default L LMAX >=1
  Bytes per second a consumer may fetch.
quota.window.num I 11 >=1
  Samples kept for quotas.
quota.window.size.seconds I 1 >=1
  Length of a quota sample.
controller.quota.window.num I 11 >=1
  With the next one, for how many seconds a quota on mutations adds up.
controller.quota.window.size.seconds I 1 >=1
  Length of a sample of the quota on mutations.
sasl.oauthbearer.jwks.endpoint.url Str null
  The public keys of OAUTHBEARER tokens: file:///path/of/jwks.json or https://… (Kafka 3.1).
sasl.oauthbearer.jwks.endpoint.refresh.ms L 3600000 >=1
  How often those keys are read again.
sasl.oauthbearer.expected.audience List ""
  Whom tokens are for, one of these; a token that names others is refused.
sasl.oauthbearer.expected.issuer Str null
  Who must have issued tokens.
sasl.oauthbearer.clock.skew.seconds I 30 >=0
  How much the issuer's clock may differ from the broker's.
sasl.oauthbearer.sub.claim.name Str sub
  The claim that holds the user's name.
sasl.oauthbearer.token.endpoint.url Str null
  Where this broker gets its own token for other brokers: file:///… or https://….
ottla.delete.retention.ms L 0 >=0 cw
  How long a deleted topic is kept and can be brought back, unless it says so itself; 0: not at all.
ottla.lifecycle.topic.enable B false
  Whether the controller publishes lifecycle events to __ottla_lifecycle.
ottla.scheduling.batch.enable B true
  Whether a broker that is woken on a busy machine lets running threads finish their turn.
ottla.metrics.hosts Str ""
  Names by which GET /metrics may be asked, beside those of the listeners, localhost and addresses.
ottla.records.validate Str full in:full,header
  Whether a leader looks at every record it is sent, or at the header of a batch where that will do.
ottla.metrics.port I -1 >=-1
  Port for GET /metrics in Prometheus' format on the first listener's host; 0 is any, -1 none.
"""

# Valid in Kafka, without a meaning here: accepted with a warning. A trailing dot is a prefix.
WITHOUT_MEANING = (
    "zookeeper.sync.time.ms",
    "zookeeper.ssl.crl.enable",
    "zookeeper.ssl.ocsp.enable",
    "fetch.purgatory.purge.interval.requests",
    "producer.purgatory.purge.interval.requests",
    "delete.records.purgatory.purge.interval.requests",
    "metrics.num.samples",
    "metrics.sample.window.ms",
    "metrics.recording.level",
    "kafka.metrics.reporters",
    "kafka.metrics.polling.interval.secs",
    "replication.quota.window.num",
    "replication.quota.window.size.seconds",
    "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds",
    "client.quota.callback.class",
    "security.providers",
    "principal.builder.class",
    "password.encoder.old.secret",
    "password.encoder.keyfactory.algorithm",
    "password.encoder.cipher.algorithm",
    "authorizer.zookeeper.",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.server.callback.handler.class",
    "sasl.client.callback.handler.class",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "log4j.",
)

# Not Kafka's own: read by the authoriser (`security/authorizer.py`), never described with a value.
READ_BY_AUTHORIZER = (
    "super.users",
    "allow.everyone.if.no.acl.found",
    "authorizer.zookeeper.url",
)
# With a mechanism before it, as `plain.sasl.jaas.config`: read by `security/listeners.py`.
JAAS_SUFFIX = ".sasl.jaas.config"

# Deprecated in 2.8, or KRaft's: refused with what to set instead, because to ignore them would
# change what is meant.
REPLACED = {
    "port": "listeners",
    "host.name": "listeners",
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
    "node.id": "broker.id",
    "process.roles": "zookeeper.connect",
    "controller.quorum.voters": "zookeeper.connect",
}

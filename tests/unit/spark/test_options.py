"""Options of format("ottla"): what is understood, and the words for what is not."""

import pytest

from ottla.spark.errors import OptionError
from ottla.spark.options import EARLIEST, LATEST, parse_sink_options, parse_source_options

BASE = {"kafka.bootstrap.servers": "h:9092", "subscribe": "b,a, a"}


def source(streaming=False, **options):
    given = {name.replace("__", "."): value for name, value in options.items()}
    return parse_source_options({**BASE, **given}, streaming=streaming)


def test_defaults_are_those_of_the_official_connector():
    batch, stream = source(), source(streaming=True)
    assert batch.subscription.topics == ("a", "b")
    assert (batch.starting.word, batch.ending.word) == (EARLIEST, LATEST)
    assert stream.starting.word == LATEST
    assert batch.fail_on_data_loss and not batch.include_headers and not batch.read_committed


def test_names_are_case_insensitive():
    parsed = parse_source_options(
        {"KAFKA.Bootstrap.Servers": "h:1", "SubscribePattern": "x.*", "FAILONDATALOSS": "False"},
        streaming=True,
    )
    assert parsed.subscription.pattern == "(?a)x.*"
    assert not parsed.fail_on_data_loss


def test_offsets_and_timestamps_by_partition():
    parsed = source(True, startingOffsets='{"a":{"0":5,"1":-1},"b":{"0":-2}}')
    assert parsed.starting.given == {"a": {0: 5, 1: LATEST}, "b": {0: EARLIEST}}
    parsed = source(
        startingOffsetsByTimestamp='{"a":{"0":1000}}', endingTimestamp="2000", startingOffsets="{"
    )
    assert parsed.starting.by_timestamp and parsed.starting.given == {"a": {0: 1000}}
    assert not parsed.starting.latest_without_match
    assert parsed.ending.timestamp_ms == 2000 and parsed.ending.latest_without_match


def test_assigned_partitions():
    parsed = parse_source_options(
        {"kafka.bootstrap.servers": "h:1", "assign": '{"t":[2,0,2]}'}, streaming=False
    )
    assert parsed.subscription.partitions == (("t", (0, 2)),)


def test_limits_and_delays():
    parsed = source(True, maxOffsetsPerTrigger="10", minOffsetsPerTrigger="5", maxTriggerDelay="2m")
    assert (parsed.max_offsets, parsed.min_offsets, parsed.max_trigger_delay_ms) == (10, 5, 120_000)


def test_sasl_plain():
    parsed = source(
        **{
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": 'x.PlainLoginModule required username="u" password="p";',
            "kafka.security.protocol": "SASL_PLAINTEXT",
        },
    )
    assert tuple(parsed.connect.credentials) == ("u", "p")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": None}, "exactly one of assign, subscribe, subscribePattern"),
        ({"subscribePattern": "x"}, "given: subscribe, subscribePattern"),
        ({"subscribe": " , "}, "names no topic"),
        ({"kafka.bootstrap.servers": None}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "nowhere"}, "Invalid url"),
        ({"startingOffset": "latest"}, "did you mean startingOffsets?"),
        ({"startingOffsets": "oldest"}, "neither a known word nor a JSON object"),
        ({"startingOffsets": '{"a":{"x":1}}'}, "'x' of topic a is not a partition"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "partition 0 of a has -3"),
        ({"startingOffsets": '{"a":[1]}'}, "a has [1]"),
        ({"startingOffsets": "latest"}, "cannot be latest in a batch query"),
        ({"startingOffsets": '{"a":{"0":5,"1":-1}}'}, "startingOffsets of a-1 cannot be -1"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "cannot hold -2"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "must be error or latest"),
        ({"failOnDataLoss": "maybe"}, "must be true or false, not 'maybe'"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"minRecordsPerPartition": "0"}, "at least 1"),
        (
            {"minRecordsPerPartition": "5", "maxRecordsPerPartition": "4"},
            "minRecordsPerPartition cannot be larger",
        ),
        ({"maxOffsetsPerTrigger": "many"}, "whole number"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "cannot be larger"),
        ({"maxTriggerDelay": "soon"}, "duration"),
        ({"onTopicRecreated": "ignore"}, "must be fail, restart or continue"),
        ({"onTopicRecreated": "continue"}, "needs kafka.group.id"),
        ({"kafka.isolation.level": "dirty"}, "read_uncommitted, read_committed"),
        ({"kafka.auto.offset.reset": "latest"}, "cannot be set: startingOffsets says"),
        ({"kafka.key.deserializer": "x"}, "cannot be set: keys and values are bytes"),
        ({"kafka.value.deserializer": "x"}, "cannot be set: keys and values are bytes"),
        ({"kafka.enable.auto.commit": "true"}, "cannot be set: offsets are in"),
        ({"kafka.interceptor.classes": "x"}, "cannot be set: interceptors"),
        ({"kafka.security.protocol": "TLS"}, "security.protocol"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.keystore.location": "/x"},
            "key store password is not specified",
        ),
        ({"subscribe": None, "assign": '{"t":["0"]}'}, "must be like"),
        ({"subscribe": None, "assign": '{"t":[]}'}, "names no partition"),
        ({"subscribe": None, "subscribePattern": "("}, "a ( without its )"),
    ],
)
def test_what_is_refused(options, words):
    merged = {k: v for k, v in {**BASE, **options}.items() if v is not None}
    with pytest.raises(OptionError) as caught:
        parse_source_options(merged, streaming=False)
    assert words in str(caught.value)


def test_filters_are_pushed_in_batches_only():
    assert source(pushFilters="true").push_filters
    with pytest.raises(OptionError, match="pushFilters is for batch queries"):
        source(True, pushFilters="true")


def test_a_stream_has_no_end():
    with pytest.raises(OptionError, match="no end"):
        source(True, endingOffsets="latest")


def sink(streaming=False, **options):
    given = {"kafka.bootstrap.servers": "h:1", **options}
    return parse_sink_options(given, streaming=streaming)


def test_sink_guarantees():
    assert sink(True).exactly_once
    assert not sink().exactly_once
    assert not sink(True, deliveryGuarantee="at_least_once").exactly_once
    assert sink(**{"kafka.compression.type": "zstd"}).compression == 4
    with pytest.raises(OptionError, match="exactly_once or at_least_once"):
        sink(deliveryGuarantee="twice")
    with pytest.raises(OptionError, match="acks must be all"):
        sink(True, **{"kafka.acks": "1"})
    with pytest.raises(OptionError, match="did you mean topic"):
        sink(topics="a")


def test_a_topic_that_the_sink_makes():
    assert (sink().topic_partitions, sink().topic_replication_factor) == (None, -1)
    made = sink(topicPartitions=" 6 ", topicReplicationFactor="3", topic=" t ")
    assert (made.topic, made.topic_partitions, made.topic_replication_factor) == ("t", 6, 3)
    assert sink(topicPartitions="6").topic_replication_factor == -1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topicPartitions": "0"}, "topicPartitions must be at least 1, not 0"),
        ({"topicPartitions": "many"}, "topicPartitions must be a whole number"),
        ({"topicPartitions": "2147483648"}, "topicPartitions must be at most 2147483647"),
        ({"topicReplicationFactor": "3"}, "topicReplicationFactor goes with topicPartitions"),
        (
            {"topicPartitions": "1", "topicReplicationFactor": "32768"},
            "topicReplicationFactor must be at most 32767",
        ),
        ({"topic": "  "}, "topic is empty"),
    ],
)
def test_what_the_sink_refuses(options, words):
    with pytest.raises(OptionError, match=words):
        sink(**options)


@pytest.mark.parametrize(
    "name", ["key.serializer", "value.serializer", "transactional.id", "interceptor.classes"]
)
def test_what_a_sink_refuses(name):
    with pytest.raises(OptionError, match=rf"kafka\.{name} cannot be set"):
        sink(**{f"kafka.{name}": "x"})


def test_each_side_refuses_what_the_connector_s_does():
    """Options that a source and a sink share: what the other refuses is only named."""
    assert source(**{"kafka.key.serializer": "x"}).unused.without_effect == (
        "kafka.key.serializer",
    )
    assert sink(**{"kafka.auto.offset.reset": "latest"}).unused.without_effect


def test_settings_that_are_read_are_not_named():
    jaas = 'x.PlainLoginModule required username="u" password="p";'
    parsed = source(
        **{
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": jaas,
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": "/ca.pem",
            "kafka.isolation.level": "read_committed",
            "kafka.client.id": "me",
            "kafka.request.timeout.ms": "1000",
            "kafka.max.partition.fetch.bytes": "1000",
            "kafka.check.crcs": "false",
            "checkpointLocation": "/c",
            "path": "x",
        }
    )
    assert parsed.unused == ((), ())
    writes = {"acks": "all", "compression.type": "lz4", "batch.size": "9"}
    writes["transaction.timeout.ms"] = "1000"
    assert sink(**{f"kafka.{name}": value for name, value in writes.items()}).unused == ((), ())


def test_settings_that_a_source_and_a_sink_share_are_not_named():
    given = {"kafka.isolation.level": "read_committed", "kafka.compression.type": "lz4"}
    assert source(**given).unused == sink(**given).unused == ((), ())


def test_security_settings_without_their_protocol_are_named():
    assert source(**{"kafka.sasl.mechanism": "PLAIN"}).unused.without_effect == (
        "kafka.sasl.mechanism",
    )


def test_options_of_the_connector_without_a_meaning_here_are_named():
    given = {"groupIdPrefix": "g", "fetchOffset.numRetries": "3", "kafka.group.id": "g"}
    assert source(**given).unused.without_effect == (
        "kafka.group.id",
        "fetchOffset.numRetries",
        "groupIdPrefix",
    )


def test_options_of_streams_are_named_in_a_batch():
    given = {"maxOffsetsPerTrigger": "9", "onTopicRecreated": "restart"}
    assert source(**given).unused.without_effect == ("maxOffsetsPerTrigger", "onTopicRecreated")
    assert source(True, **given).unused == ((), ())


def test_the_time_for_a_whole_call():
    assert source(**{"kafka.request.timeout.ms": "5000"}).connect.timeout_ms == 5000
    both = {"kafka.request.timeout.ms": "5000", "kafka.default.api.timeout.ms": "9000"}
    assert source(**both).connect.timeout_ms == 9000
    assert source(**both).unused == ((), ())

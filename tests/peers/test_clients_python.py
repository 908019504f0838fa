"""The two pure Python clients: a topic made, written and read in a group, each by itself."""

import asyncio

import aiokafka
import aiokafka.admin
import kafka
import kafka.admin

from tests.support.known_topics import await_known

RECORDS = 5_000
TIMEOUT_S = 60


def value_of(number):
    return b"%06d" % number


def test_kafka_python_writes_and_reads_in_a_group(ottla_processes):
    servers = ottla_processes.bootstrap_servers.split(",")
    topic = "kafka-python"
    admin = kafka.KafkaAdminClient(bootstrap_servers=servers)
    try:
        admin.create_topics([kafka.admin.NewTopic(topic, 3, 3)])
        await_known(ottla_processes.bootstrap_servers, topic, 3)
    finally:
        admin.close()

    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all", compression_type="gzip")
    futures = [producer.send(topic, value_of(number)) for number in range(RECORDS)]
    producer.flush(TIMEOUT_S)
    places = {(place.partition, place.offset) for place in (f.get(TIMEOUT_S) for f in futures)}
    producer.close()
    assert len(places) == RECORDS, "every record has a place of its own"

    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id="kafka-python",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )
    try:
        found = {}
        for record in consumer:
            found[(record.partition, record.offset)] = record.value
            if len(found) == RECORDS:
                break
        consumer.commit()
        assert set(found) == places
        assert sorted(found.values()) == [value_of(number) for number in range(RECORDS)]
        parts = [kafka.TopicPartition(topic, partition) for partition in range(3)]
        assert sum(consumer.committed(part) for part in parts) == RECORDS
    finally:
        consumer.close()


async def test_aiokafka_writes_and_reads_in_a_group(ottla_processes):
    servers = ottla_processes.bootstrap_servers
    topic = "aiokafka"
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        await admin.create_topics([aiokafka.admin.NewTopic(topic, 3, 3)])
        await asyncio.to_thread(await_known, servers, topic, 3)
    finally:
        await admin.close()

    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    await producer.start()
    try:
        sends = [await producer.send(topic, value_of(number)) for number in range(RECORDS)]
        sent = await asyncio.wait_for(asyncio.gather(*sends), TIMEOUT_S)
    finally:
        await producer.stop()
    places = {(place.partition, place.offset) for place in sent}
    assert len(places) == RECORDS

    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id="aiokafka",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        found = {}
        async with asyncio.timeout(TIMEOUT_S):
            while len(found) < RECORDS:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found |= {(record.partition, record.offset): record.value for record in records}
        await consumer.commit()
        assert set(found) == places
        assert sorted(found.values()) == [value_of(number) for number in range(RECORDS)]
        committed = [
            await consumer.committed(aiokafka.TopicPartition(topic, partition))
            for partition in range(3)
        ]
        assert sum(committed) == RECORDS
    finally:
        await consumer.stop()

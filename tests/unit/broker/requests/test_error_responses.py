"""Every routed API has an error form that its own codec accepts."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.handlers import ROUTES, LoadedRoute, Route
from ottla.broker.requests import error_responses
from ottla.errors import ErrorCode
from ottla.wire import messages as m


def error_response(*arguments: Any) -> Any:
    """The whole response at once."""
    making = error_responses.error_response(*arguments)
    while True:
        try:
            next(making)
        except StopIteration as stop:
            return stop.value


def _loaded(route: Route) -> LoadedRoute:
    async def handle(ctx: Any, request: Any) -> None: ...

    return LoadedRoute(
        route, handle, m.request_class(route.api_key), m.response_class(route.api_key)
    )


def _route(name: str) -> LoadedRoute:
    return _loaded(next(route for route in ROUTES if route.name == name))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_version_can_be_encoded(route: Route) -> None:
    loaded = _loaded(route)
    for version in range(route.min_version, route.max_version + 1):
        response = error_response(
            loaded, loaded.request_class(), version, ErrorCode.UNKNOWN_SERVER_ERROR, None
        )
        assert response is not None
        assert isinstance(response.encode(version), bytes)


def test_codes_are_repeated_for_partitions() -> None:
    partitions = [m.ProduceRequest.PartitionProduceData(index=i) for i in (0, 3)]
    topic = m.ProduceRequest.TopicProduceData(name="t", partition_data=partitions)
    response = error_response(
        _route("Produce"), m.ProduceRequest(topic_data=[topic]), 9, ErrorCode.INVALID_REQUEST, "why"
    )
    assert response.responses[0].name == "t"
    found = [
        (p.index, p.error_code, p.base_offset, p.error_message)
        for p in response.responses[0].partition_responses
    ]
    assert found == [(0, 42, -1, "why"), (3, 42, -1, "why")]


def test_fetch_names_partitions_differently() -> None:
    partition = m.FetchRequest.FetchPartition(partition=4)
    topic = m.FetchRequest.FetchTopic(topic="t", partitions=[partition])
    response = error_response(
        _route("Fetch"), m.FetchRequest(topics=[topic]), 12, ErrorCode.UNKNOWN_SERVER_ERROR, None
    )
    assert response.error_code == -1
    only = response.responses[0].partitions[0]
    assert (response.responses[0].topic, only.partition_index, only.error_code) == ("t", 4, -1)
    assert only.high_watermark == -1


def test_plain_names_become_entries() -> None:
    deleted = error_response(
        _route("DeleteTopics"),
        m.DeleteTopicsRequest(topic_names=["a", "b"]),
        5,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        None,
    )
    assert [(r.name, r.error_code) for r in deleted.responses] == [("a", -1), ("b", -1)]
    found = error_response(
        _route("FindCoordinator"),
        m.FindCoordinatorRequest(coordinator_keys=["g"]),
        4,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        None,
    )
    assert [(c.key, c.error_code) for c in found.coordinators] == [("g", 15)]


@pytest.mark.parametrize("version", [10, 11, 12])
def test_a_name_that_was_left_out_is_answered_empty(version: int) -> None:
    """KAFKA-12701: an answer of version 10 has no null for it."""
    topic = m.MetadataRequest.MetadataRequestTopic(name=None, topic_id=bytes(range(16)))
    response = error_response(
        _route("Metadata"),
        m.MetadataRequest(topics=[topic]),
        version,
        ErrorCode.INVALID_REQUEST,
        "",
    )
    decoded, _ = m.MetadataResponse.decode(response.encode(version), version)
    assert (decoded.topics[0].name, decoded.topics[0].error_code) == ("", 42)

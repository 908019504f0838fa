"""Lag and offsets in a progress report."""

import json

from ottla.spark import progress
from ottla.spark.progress import PartitionProgress


def offsets(topic_id="x", **partitions):
    return {"t": {"id": topic_id, "partitions": partitions}}


OURS = {
    "startOffset": offsets(**{"0": 2, "1": 7}),
    "endOffset": offsets(**{"0": 5, "1": 7}),
    "latestOffset": json.dumps(offsets(**{"0": 9, "1": 7, "2": 3})),
}
KAFKA = {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 9}}}


def test_lag_is_what_was_there_and_not_read():
    report = {"sources": [OURS, KAFKA, {"endOffset": None}]}
    assert progress.lag(report) == 4 + 3
    assert progress.partitions(report) == [
        PartitionProgress("t", 0, 2, 5, 9),
        PartitionProgress("t", 1, 7, 7, 7),
        PartitionProgress("t", 2, None, 0, 3),
    ]


def test_the_numbers_of_the_official_connector_by_their_names():
    assert progress.offsets_behind({"sources": [OURS]}) == {
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 4,
        "avgOffsetsBehindLatest": 7 / 3,
    }


def test_where_nobody_knows_it_is_not_zero():
    older = {**OURS, "latestOffset": None}
    for sources in ([older], [KAFKA], []):
        assert progress.lag({"sources": sources}) is None
        assert progress.offsets_behind({"sources": sources}) == {}
    assert progress.partitions({"sources": [older]}) == [
        PartitionProgress("t", 0, 2, 5, None),
        PartitionProgress("t", 1, 7, 7, None),
    ]


def test_of_a_topic_that_was_made_again_nothing_was_read():
    source = {**OURS, "latestOffset": offsets("y", **{"0": 3})}
    assert progress.lag({"sources": [source]}) == 3

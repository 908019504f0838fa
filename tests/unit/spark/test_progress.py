"""The lag in a progress report."""

import json

from ottla.spark import progress


def offsets(**partitions):
    return {"t": {"id": "x", "partitions": partitions}}


def test_lag_is_what_was_there_and_not_read():
    ours = {
        "endOffset": offsets(**{"0": 5, "1": 7}),
        "latestOffset": json.dumps(offsets(**{"0": 9, "1": 7, "2": 3})),
    }
    kafka = {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 9}}}
    assert progress.lag({"sources": [ours, kafka, {"endOffset": None}]}) == 4 + 3

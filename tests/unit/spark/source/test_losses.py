"""Records that are missing: who may go on, and what the others are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.pipelines.copy.ends import Endpoint
from ottla.spark.errors import DataLoss
from ottla.spark.options import parse_source_options
from ottla.spark.source.losses import accept
from ottla.spark.source.offsets import Loss


@pytest.mark.parametrize(
    ("recreated", "option"), [(False, "failOnDataLoss=false"), (True, "onTopicRecreated=restart")]
)
def test_what_can_be_done_is_said_to_those_who_can(recreated: bool, option: str) -> None:
    given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}
    query = parse_source_options(given, streaming=False)
    loss = Loss("t", "records are gone", recreated=recreated)
    with pytest.raises(DataLoss, match=f"^records are gone; .*{option}"):
        accept(loss, query)
    # A copy has no such options, nor has whoever calls `ottla resize`.
    copy = Endpoint("localhost:1", "t").options("read_committed")
    with pytest.raises(DataLoss, match=r"^records are gone; delete the copy .* begin anew$"):
        accept(loss, copy)
    if not recreated:
        accept(loss, replace(query, fail_on_data_loss=False))

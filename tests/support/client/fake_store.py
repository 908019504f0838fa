"""What a scripted broker does with Produce."""

from __future__ import annotations

from typing import Any

from ottla.wire import messages as m
from ottla.wire.records import iter_records, read_header


class Store:
    """Takes batches; answers with the codes that a test has put down."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, list[bytes | None]]] = []
        self.codes: list[int] = []

    def produce(self, request: Any) -> m.ProduceResponse:
        answer = m.ProduceResponse
        results = []
        for data in request.topic_data[0].partition_data:
            batch = bytes(data.records)
            header = read_header(batch)
            values = [record.value for record in iter_records(batch)]
            self.batches.append((data.index, header.base_sequence, values))
            code = self.codes.pop(0) if self.codes else 0
            results.append(answer.PartitionProduceResponse(index=data.index, error_code=code))
        return answer(
            responses=[answer.TopicProduceResponse(name="t", partition_responses=results)]
        )

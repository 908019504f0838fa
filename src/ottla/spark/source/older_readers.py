"""The stream's reader for a Spark before 4.2, which knows no admission control.

It asks for the newest offsets and does not say where the last micro-batch ended; only when a query
is started again it shows the last offsets that it has, as an empty micro-batch
(PythonMicroBatchStream.setLatestSeenOffset). `Trigger.AvailableNow` is one micro-batch there, and
the progress has no latest offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from ottla.spark.source.readers import StreamReader


class OlderStreamReader(StreamReader):
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        return self._stream().newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            self._stream().resume(end)
            return []
        self._stream().check_continues(start, end)
        return super().partitions(start, end)

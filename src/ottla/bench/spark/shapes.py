"""The records that `ottla bench spark` moves: how many, and how Spark makes them.

Cheap expressions only, and the same bytes in every run. `rpad` and `repeat` take longer than either
sink. `substring` of a string counts characters from its beginning and took a third of the
processors' time of a write; that of bytes copies them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_NOTE_BYTES = 310
JSON_SCHEMA = "id BIGINT, user STRING, page STRING, price DOUBLE, ok BOOLEAN, note STRING"


class Shape(NamedTuple):
    """Columns as SQL over `id`."""

    records: int
    # "5,000,000 x <size>" is in the names of the rows.
    size: str
    value: str
    key: str = "CAST(id AS STRING)"
    headers: str | None = None

    def frame(self, spark: SparkSession, count: int, tasks: int) -> DataFrame:
        columns = [f"{self.key} AS key", f"{self.value} AS value"]
        if self.headers is not None:
            columns.append(f"{self.headers} AS headers")
        return spark.range(0, count, 1, tasks).selectExpr(*columns)


def _dots(count: int) -> str:
    return "." * count


def _json() -> str:
    """An event of a shop: 81 to 90 bytes and a note of 0 to 310."""
    return (
        """concat('{"id":', id + 10000000, ',"user":"user-', id % 1000, """
        """'","page":"/item/', id % 5000, '","price":', id % 10000, """
        """'.25,"ok":', id % 3 = 0, ',"note":"', """
        f"""CAST(substring(X'{"2E" * MAX_NOTE_BYTES}', 1, pmod(hash(id), {MAX_NOTE_BYTES + 1})) """
        """AS STRING), '"}')"""
    )


# "record ", eight digits and dots.
_HUNDRED_BYTES = f"concat('record ', CAST(id + 10000000 AS STRING), '{_dots(85)}')"

PLAIN = Shape(5_000_000, "100 B", _HUNDRED_BYTES)
JSON = Shape(2_000_000, "80 to 400 B of JSON", _json())
HEADERS = Shape(
    1_000_000,
    "100 B with two headers",
    _HUNDRED_BYTES,
    headers=(
        "array(named_struct('key', 'trace', 'value', CAST(CAST(id AS STRING) AS BINARY)), "
        "named_struct('key', 'from', 'value', CAST('bench' AS BINARY)))"
    ),
)
LONG_KEYS = Shape(
    100_000,
    "100 B with keys of 4 kB",
    _HUNDRED_BYTES,
    key=f"concat(CAST(id + 10000000 AS STRING), '{_dots(4000)}')",
)
REPLICATED = Shape(1_000_000, "100 B", _HUNDRED_BYTES)
SMALL = Shape(200_000, "100 B", _HUNDRED_BYTES)

"""What the data source API of the installed PySpark has: 4.0 and 4.1 have less of it than 4.2.

Names that a version lacks have stand-ins here, so that one source serves all of them. An option
that needs what is missing is refused in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyspark
from pyspark.sql.datasource import DataSourceStreamWriter

from ottla.spark.errors import OptionError

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable as ReadAllAvailable
    from pyspark.sql.streaming.datasource import ReadLimit as ReadLimit
    from pyspark.sql.streaming.datasource import ReadMaxRows as ReadMaxRows
    from pyspark.sql.streaming.datasource import ReadMinRows as ReadMinRows
    from pyspark.sql.streaming.datasource import (
        SupportsTriggerAvailableNow as SupportsTriggerAvailableNow,
    )
except ImportError:  # before 4.2 (SPARK-55304)
    HAS_ADMISSION_CONTROL = False

    class _NeverMade:
        """Such a Spark asks for all that is there, and reads what is there at the start of
        `Trigger.AvailableNow` in one micro-batch by itself."""

    # No two of them are the same class: what is one is not another.
    for _name in ("ReadAllAvailable", "ReadLimit", "ReadMaxRows", "ReadMinRows"):
        globals()[_name] = type(_name, (_NeverMade,), {})
    SupportsTriggerAvailableNow = _NeverMade  # type: ignore[misc,assignment]  # mypy sees 4.2
else:
    HAS_ADMISSION_CONTROL = True

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
except ImportError:  # before 4.1 (SPARK-53030)
    HAS_STREAM_ARROW_WRITER = False
    DataSourceStreamArrowWriter = DataSourceStreamWriter  # type: ignore[misc,assignment]
else:
    HAS_STREAM_ARROW_WRITER = True

# Spark asks these readers how far a micro-batch may go, and tells them where the last one ended.
_NEED_ADMISSION_CONTROL = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


def refuse_missing(
    given: Mapping[str, str],
    *,
    admission_control: bool = HAS_ADMISSION_CONTROL,
    version: str = pyspark.__version__,
) -> None:
    """Options of a stream that this Spark cannot honour. Raises OptionError."""
    if admission_control:
        return
    names = _named(given, _NEED_ADMISSION_CONTROL)
    if names:
        raise OptionError(
            f"{', '.join(names)}: Spark {version} does not let a Python source limit its "
            "micro-batches; it takes Spark 4.2 or later"
        )


def _named(given: Iterable[str], names: Iterable[str]) -> list[str]:
    lower = {name.lower() for name in given}
    return [name for name in names if name.lower() in lower]

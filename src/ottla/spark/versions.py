"""What the data source API of the installed PySpark has: 4.0 and 4.1 have less of it than 4.2.

Names that a version lacks have stand-ins here, so that one source serves all of them. An option
that needs what is missing is refused in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSourceStreamWriter

from ottla.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_ADMISSION_CONTROL = True
    HAS_STREAM_ARROW_WRITER = True
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        HAS_ADMISSION_CONTROL = True
    except ImportError:  # before 4.2 (SPARK-55304)
        HAS_ADMISSION_CONTROL = False

        class ReadLimit:
            """Never made: such a Spark asks for all that is there."""

        class ReadAllAvailable(ReadLimit):
            pass

        class ReadMaxRows(ReadLimit):
            pass

        class ReadMinRows(ReadLimit):
            pass

        class SupportsTriggerAvailableNow:
            """Such a Spark reads what is there at the start in one micro-batch by itself."""

    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter

        HAS_STREAM_ARROW_WRITER = True
    except ImportError:  # before 4.1 (SPARK-53030)
        HAS_STREAM_ARROW_WRITER = False
        DataSourceStreamArrowWriter = DataSourceStreamWriter

__all__ = [
    "HAS_ADMISSION_CONTROL",
    "HAS_STREAM_ARROW_WRITER",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]

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

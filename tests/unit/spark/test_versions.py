"""What the API of an older PySpark lacks; the campaign runs them (test_spark_versions.py)."""

import pytest

from ottla.spark import versions
from ottla.spark.errors import OptionError


def test_this_pyspark_has_everything():
    assert versions.HAS_ADMISSION_CONTROL and versions.HAS_STREAM_ARROW_WRITER
    versions.refuse_missing({"maxOffsetsPerTrigger": "1"})


@pytest.mark.parametrize(
    "name", ["maxOffsetsPerTrigger", "MINOFFSETSPERTRIGGER", "maxTriggerDelay"]
)
def test_limits_need_admission_control(name):
    with pytest.raises(OptionError, match=r"Spark 4\.1\.4 does not .* Spark 4\.2 or later"):
        versions.refuse_missing({name: "1"}, admission_control=False, version="4.1.4")
    versions.refuse_missing({"subscribe": "t"}, admission_control=False, version="4.1.4")

"""What the API of an older PySpark lacks; the campaign runs them (test_spark_versions.py)."""

import importlib.util
import sys

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


def test_what_an_older_pyspark_lacks_has_stand_ins(monkeypatch):
    """As it is imported where the module with admission control is not there."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    spec = importlib.util.spec_from_file_location("older_versions", versions.__file__)
    older = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(older)
    assert not older.HAS_ADMISSION_CONTROL and older.HAS_STREAM_ARROW_WRITER
    limits = [older.ReadLimit(), older.ReadAllAvailable(), older.ReadMaxRows(), older.ReadMinRows()]
    assert [isinstance(one, older.ReadMaxRows) for one in limits] == [False, False, True, False]
    type("Reader", (older.SupportsTriggerAvailableNow,), {})()

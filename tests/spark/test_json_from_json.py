"""JSON values as columns, judged by Spark's own from_json on the same bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql.types import StructType

from ottla.spark.formats.json_columns import JsonColumns
from ottla.spark.formats.json_format import JsonFormat, arrow_struct
from tests.support.spark.json_cases import (
    FIELDS,
    FIELDS_WITH_MAP,
    by_spark,
    documents,
    hard_values,
    plain,
)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=[FIELDS, FIELDS_WITH_MAP], ids=["joined", "one by one"])
def fields(request):
    return request.param


@pytest.fixture(scope="module")
def columns(spark, fields):
    struct = StructType.fromDDL(fields)
    return JsonColumns(JsonFormat(arrow_struct(struct, "_corrupt_record")))


def differences(values, parsed, theirs):
    """Of a record that is not JSON we give nulls only; Spark keeps a field of it now and then."""
    rows = zip(plain(parsed.structs), plain(theirs), strict=True)
    return [
        (values[number], ours, spark)
        for number, (ours, spark) in enumerate(rows)
        if ours != spark
        and not (
            "not a JSON object" in parsed.faults.get(number, "")
            and theirs[number].as_py()["_corrupt_record"] is not None
        )
    ]


def test_hard_cases_are_read_as_by_from_json(spark, fields, columns):
    values = [*hard_values(), None]
    parsed = columns.parse(pa.array(values, pa.binary()))
    assert differences(values, parsed, by_spark(spark, values, fields)) == []


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=documents)
def test_any_documents_are_read_as_by_from_json(spark, fields, columns, texts):
    values = [text.encode("utf-8", "surrogatepass") for text in texts]
    parsed = columns.parse(pa.array(values, pa.binary()))
    assert differences(values, parsed, by_spark(spark, values, fields)) == []

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


def differences(values, ours, theirs):
    return [
        (value, mine, spark)
        for value, mine, spark in zip(values, plain(ours), plain(theirs), strict=True)
        if mine != spark
    ]


def test_hard_cases_are_read_as_by_from_json(spark, fields, columns):
    values = [*hard_values(), None]
    parsed = columns.parse(pa.array(values, pa.binary()))
    assert differences(values, parsed.structs, by_spark(spark, values, fields)) == []


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=documents)
def test_any_documents_are_read_as_by_from_json(spark, fields, columns, texts):
    values = [text.encode("utf-8", "surrogatepass") for text in texts]
    parsed = columns.parse(pa.array(values, pa.binary()))
    assert differences(values, parsed.structs, by_spark(spark, values, fields)) == []

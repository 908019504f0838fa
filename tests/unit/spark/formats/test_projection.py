"""Columns by option and by schema: what is understood, and the words for what is not."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.spark.errors import OptionError
from ottla.spark.formats.projection import projected, source_schema

USER = StructType().add("user", StringType()).add("at", TimestampType())
JSON = {"valueFormat": "json"}


def test_the_columns_of_the_official_connector():
    assert source_schema({}) == (
        "key binary, value binary, topic string, partition int, offset bigint, "
        "timestamp timestamp, timestampType int"
    )
    assert source_schema({"includeHeaders": "True"}).endswith(
        "timestampType int, headers array<struct<key:string,value:binary>>"
    )


def test_columns_by_name_in_their_order():
    assert source_schema({"COLUMNS": "offset, TimestampType ,headers"}) == (
        "offset bigint, timestampType int, headers array<struct<key:string,value:binary>>"
    )
    schema = StructType().add("offset", LongType()).add("value", BinaryType())
    assert projected({"columns": "offset,value"}, schema).columns == ("offset", "value")


def test_json_values_are_a_struct():
    asked = {**JSON, "schema": "user STRING, at TIMESTAMP", "columns": "value,offset"}
    assert source_schema(asked) == "value struct<user STRING, at TIMESTAMP>, offset bigint"
    asked["schema"] = "STRUCT<user: STRING>"
    assert source_schema(asked) == "value STRUCT<user: STRING>, offset bigint"
    asked["schema"] = USER.json()
    schema = StructType().add("value", USER).add("offset", LongType())
    assert source_schema(asked) == schema
    found = projected({**asked, "mode": "failfast", "timeZone": "+02:00"}, schema)
    assert found.columns == ("value", "offset")
    assert (found.json.mode, found.json.time_zone) == ("FAILFAST", "+02:00")
    assert found.json.struct.names == ["user", "at"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": "offset,valu"}, "no column 'valu'; did you mean value?"),
        ({"columns": ""}, "no column ''"),
        ({"columns": "key,key"}, "names key twice"),
        ({"columns": "key", "includeHeaders": "true"}, "does not name headers"),
        ({"valueFormat": "avro"}, "must be binary or json, not 'avro'"),
        ({"valueFormat": "json"}, "needs the option schema"),
        ({**JSON, "schema": "a INT", "columns": "offset"}, "needs the column value"),
        ({"schema": "a INT"}, "schema is for valueFormat=json"),
        ({"mode": "FAILFAST"}, "mode is for valueFormat=json"),
        ({**JSON, "schema": "{"}, "schema is not Spark's JSON"),
        ({**JSON, "schema": '{"type":"struct","fields":[{"x":1}]}'}, "not Spark's JSON"),
        ({**JSON, "schema": '{"fields":7}'}, "not Spark's JSON"),
    ],
)
def test_options_that_are_refused(options, words):
    with pytest.raises(OptionError) as caught:
        source_schema(options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "schema", "words"),
    [
        ({}, USER, "the schema has user, but the columns are key, value"),
        ({}, StructType().add("value", USER), "valueFormat=json reads it as a struct"),
        ({}, StructType().add("offset", IntegerType()), "offset is bigint, the schema says int"),
        ({}, StructType().add("offset", LongType(), False), "offset is NOT NULL"),
        ({"columns": "key"}, StructType().add("value", BinaryType()), "columns says key"),
        ({}, StructType().add("key", BinaryType()).add("key", BinaryType()), "there twice"),
        (JSON, StructType().add("value", BinaryType()), "nullable STRUCT"),
        (JSON, StructType().add("value", USER, False), "nullable STRUCT"),
        ({**JSON, "mode": "SKIP"}, StructType().add("value", USER), "mode must be PERMISSIVE"),
        ({**JSON, "timeZone": "Mars"}, StructType().add("value", USER), "no zone 'Mars'"),
    ],
)
def test_schemas_that_are_refused(options, schema, words):
    with pytest.raises(OptionError) as caught:
        projected(options, schema)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("struct", "words"),
    [
        (StructType().add("a", BinaryType()), "a is binary, which valueFormat=json does not read"),
        (StructType().add("a", ArrayType(USER, False)), "a.element is NOT NULL"),
        (StructType().add("a", StructType().add("b", LongType(), False)), "a.b is NOT NULL"),
        (StructType().add("a", MapType(LongType(), LongType())), "keys of a must be STRING"),
        (StructType().add("a", LongType()).add("a", LongType()), "a is there twice"),
        (StructType().add("_corrupt_record", LongType()), "make it STRING"),
    ],
)
def test_types_that_are_refused(struct, words):
    with pytest.raises(OptionError) as caught:
        projected(JSON, StructType().add("value", struct))
    assert words in str(caught.value)

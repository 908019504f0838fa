"""Values of topics to rows and rows to records: plain functions of DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.pipelines.spec_keys import SpecError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

RECORD_COLUMNS = ("key", "value", "headers", "partition")
# What the source tells of a record beside: where it was, which is not where it goes.
_SOURCE_COLUMNS = ("topic", "offset", "timestamp", "timestampType")
# Where the columns of a JSON value may have any name, those of its record begin with "_".
_PLACE_COLUMNS = ("topic", "partition", "offset", "timestamp", "headers")
_CORRUPT = "_ottla_corrupt_record"
_PARSED = "_ottla_parsed"


class ParsedRows(NamedTuple):
    """Rows that fit the schema, and the records of those that do not (None: all fit)."""

    good: DataFrame
    bad: DataFrame | None


def parse_values(frame: DataFrame, schema: str, count_bad_as: str | None = None) -> ParsedRows:
    """`bytes` leaves the source's columns, `text` makes key and value strings, and columns are
    taken out of JSON objects, with `_key`, `_topic`, `_partition`, `_offset` and `_timestamp`.
    Rows that do not fit are counted under a name where nobody else sees them."""
    from pyspark.sql import functions

    if schema == "bytes":
        return ParsedRows(frame, None)
    if schema == "text":
        texts = {name: functions.col(name).cast("string") for name in ("key", "value")}
        return ParsedRows(frame.withColumns(texts), None)
    columns = columns_of(schema)
    parsed = frame.withColumn(_PARSED, _from_json(columns))
    fits = _fits(columns)
    if count_bad_as is not None:
        parsed = parsed.observe(count_bad_as, functions.count_if(~fits).alias("n"))
    good = parsed.where(fits).select(
        *(functions.col(_PARSED)[name].alias(name) for name in columns.names),
        functions.col("key").cast("string").alias("_key"),
        *(
            functions.col(name).alias(f"_{name}")
            for name in _PLACE_COLUMNS
            if name in frame.columns
        ),
    )
    return ParsedRows(good, _dead_letters(parsed.where(~fits), columns))


def columns_of(schema: str) -> StructType:
    """Raises SpecError where the text is not a list of columns."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        columns = StructType.fromDDL(schema)
    except (PySparkException, ValueError) as error:
        words = str(error).strip().splitlines()[0] if str(error).strip() else "no columns"
        raise SpecError(f"schema: {schema!r} is not a list of columns ({words})") from None
    if not isinstance(columns, StructType):
        raise SpecError(f"schema: {schema!r} is not a list of columns")
    return columns


def _from_json(columns: StructType) -> Column:
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    nullable = StructType([StructField(f.name, f.dataType, True) for f in columns.fields])
    whole = nullable.add(_CORRUPT, StringType(), True)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return functions.from_json(functions.col("value").cast("string"), whole, options)


def _fits(columns: StructType) -> Column:
    from pyspark.sql import functions

    parsed = functions.col(_PARSED)
    fits = parsed.isNotNull() & parsed[_CORRUPT].isNull()
    for field in columns.fields:
        if not field.nullable:
            fits = fits & parsed[field.name].isNotNull()
    return fits


def _dead_letters(frame: DataFrame, columns: StructType) -> DataFrame:
    """The records as they were, with headers that say why and from where."""
    from pyspark.sql import functions as f

    parsed = f.col(_PARSED)
    reason = f.when(f.col("value").isNull(), "no value")
    reason = reason.when(parsed.isNull() | parsed[_CORRUPT].isNotNull(), "does not fit the schema")
    for field in columns.fields:
        if not field.nullable:
            reason = reason.when(parsed[field.name].isNull(), f"{field.name} is null")
    told = {
        "ottla.reason": reason,
        "ottla.topic": f.col("topic"),
        "ottla.partition": f.col("partition").cast("string"),
        "ottla.offset": f.col("offset").cast("string"),
    }
    notes = f.array(
        *(
            f.struct(f.lit(name).alias("key"), text.cast("binary").alias("value"))
            for name, text in told.items()
        )
    )
    own = f.coalesce(f.col("headers"), f.array().cast("array<struct<key:string,value:binary>>"))
    return frame.select("key", "value", f.concat(own, notes).alias("headers"))


def to_records(frame: DataFrame, record_key: str | None) -> DataFrame:
    """Rows that are records already stay (a `value` of text or bytes, and nothing that a record
    has no place for), and so do those of the source; others become JSON objects."""
    from pyspark.sql import functions
    from pyspark.sql.types import BinaryType, StringType

    kinds = {field.name: field.dataType for field in frame.schema.fields}
    if isinstance(kinds.get("value"), StringType | BinaryType) and kinds.keys() <= {
        *RECORD_COLUMNS,
        *_SOURCE_COLUMNS,
    }:
        if record_key is not None:
            frame = frame.withColumn("key", _key(record_key))
        places = _SOURCE_COLUMNS if "offset" not in kinds else (*_SOURCE_COLUMNS, "partition")
        return frame.drop(*places)
    columns = [name for name in frame.columns if not name.startswith("_")] or frame.columns
    value = functions.to_json(functions.struct(*(functions.col(f"`{name}`") for name in columns)))
    key = functions.lit(None).cast("string") if record_key is None else _key(record_key)
    return frame.select(key.alias("key"), value.alias("value"))


def _key(expression: str) -> Column:
    from pyspark.sql import functions

    return functions.expr(expression).cast("string")

"""What a query says about its JSON values, and the types that they may have. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ottla.spark.errors import OptionError

PERMISSIVE, FAILFAST, DROPMALFORMED = "PERMISSIVE", "FAILFAST", "DROPMALFORMED"
MODES = (PERMISSIVE, FAILFAST, DROPMALFORMED)
CORRUPT_RECORD = "_corrupt_record"

_SIMPLE = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True)
class JsonFormat:
    """`struct` holds the column of corrupt records too, where there is one."""

    struct: pa.StructType
    mode: str = PERMISSIVE
    corrupt_record: str = CORRUPT_RECORD
    time_zone: str = "UTC"


def arrow_struct(spark_struct: Any, corrupt_record: str) -> pa.StructType:
    """The struct of a pyspark StructType. Raises OptionError for what JSON is not read as."""
    struct = _type(spark_struct, "")
    index = struct.get_field_index(corrupt_record)
    if index >= 0 and struct.field(index).type != pa.string():
        raise OptionError(f"schema: {corrupt_record} holds the text of records: make it STRING")
    return struct


def _type(kind: Any, path: str) -> pa.DataType:
    name = kind.typeName()
    if name == "struct":
        return pa.struct([_field(path, field) for field in _distinct(kind, path)])
    if name == "array":
        _check_nullable(kind.containsNull, f"{path}.element")
        return pa.list_(pa.field("element", _type(kind.elementType, f"{path}.element")))
    if name == "map":
        if kind.keyType.typeName() != "string":
            raise OptionError(f"schema: the keys of {path[1:]} must be STRING, as those of JSON")
        _check_nullable(kind.valueContainsNull, f"{path}.value")
        values = pa.field("value", _type(kind.valueType, f"{path}.value"))
        return pa.map_(pa.field("key", pa.string(), nullable=False), values)
    if name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    simple = _SIMPLE.get(kind.simpleString())
    if simple is None:
        raise OptionError(
            f"schema: {path[1:]} is {kind.simpleString()}, which valueFormat=json does not read; "
            f"it reads {', '.join(_SIMPLE)}, decimal, array, struct and map"
        )
    return simple


def _field(path: str, field: Any) -> pa.Field:
    _check_nullable(field.nullable, f"{path}.{field.name}")
    return pa.field(field.name, _type(field.dataType, f"{path}.{field.name}"))


def _distinct(kind: Any, path: str) -> Any:
    names = kind.fieldNames()
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"schema: {f'{path}.{twice}'[1:]} is there twice")
    return kind


def _check_nullable(nullable: bool, path: str) -> None:
    """`from_json` makes all nullable; a source would promise Spark what no record has to keep."""
    if not nullable:
        raise OptionError(f"schema: {path[1:]} is NOT NULL, but a record may come without it")

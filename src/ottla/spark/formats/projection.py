"""Which columns a query has, by its options and by the schema that Spark expects. Pure.

Spark asks for a schema first (`source_schema`) and hands it back when it asks for a reader
(`projected`), as it does with a schema that the user gave to `spark.read.schema(…)`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.config.definitions import nearest_name
from ottla.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ottla.spark.formats.json_format import JsonFormat

# In the words of Spark's simpleString, in the order of the official connector.
KAFKA_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
_WITHOUT_HEADERS = tuple(name for name in KAFKA_TYPES if name != "headers")
VALUE_OPTIONS = ("valueFormat", "schema", "mode", "columnNameOfCorruptRecord", "timeZone")


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns in their order; with `json` the column `value` is a struct."""

    columns: tuple[str, ...]
    json: JsonFormat | None = None


def source_schema(options: Mapping[str, str]) -> StructType | str:
    """What Spark is told, as DDL or as a struct. Raises OptionError."""
    given = _lowered(options)
    columns = _columns(given)
    if not _is_json(given, columns):
        return ", ".join(f"{name} {KAFKA_TYPES[name]}" for name in columns)
    schema = given.get("schema", "").strip()
    if not schema:
        raise OptionError(
            'valueFormat=json needs the option schema, such as "user STRING, at TIMESTAMP"'
        )
    if schema.startswith("{"):
        return _with_struct(columns, schema)
    # Spark reads the DDL: there is no parser for it in Python.
    struct = schema if schema.lower().startswith("struct<") else f"struct<{schema}>"
    return ", ".join(
        f"{name} {struct if name == 'value' else KAFKA_TYPES[name]}" for name in columns
    )


def projected(options: Mapping[str, str], schema: StructType) -> Projection:
    """The columns of a query whose rows are to have this schema. Raises OptionError."""
    given = _lowered(options)
    columns = tuple(schema.fieldNames())
    if "columns" in given and columns != _columns(given):
        raise OptionError(
            f"columns says {', '.join(_columns(given))}, the schema has {', '.join(columns)}"
        )
    is_json = _is_json(given, columns)
    for field in schema.fields:
        if not (is_json and field.name == "value"):
            _check_field(field)
    if len(set(columns)) < len(columns):
        raise OptionError(f"a column is there twice: {', '.join(columns)}")
    return Projection(columns, _json_format(given, schema["value"]) if is_json else None)


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in options.items()}


def _columns(given: Mapping[str, str]) -> tuple[str, ...]:
    with_headers = given.get("includeheaders", "false").strip().lower() == "true"
    text = given.get("columns")
    if text is None:
        return tuple(KAFKA_TYPES) if with_headers else _WITHOUT_HEADERS
    known = {name.lower(): name for name in KAFKA_TYPES}
    columns: list[str] = []
    for word in (word.strip() for word in text.split(",")):
        name = known.get(word.lower())
        if name is None:
            nearest = nearest_name(word.lower(), known)
            hint = f"did you mean {known[nearest]}?" if nearest else f"there are {', '.join(known)}"
            raise OptionError(f"columns: there is no column {word!r}; {hint}")
        if name in columns:
            raise OptionError(f"columns names {name} twice")
        columns.append(name)
    if with_headers and "headers" not in columns:
        raise OptionError("includeHeaders is true, but columns does not name headers")
    return tuple(columns)


def _is_json(given: Mapping[str, str], columns: tuple[str, ...]) -> bool:
    value_format = given.get("valueformat", "binary").strip().lower()
    if value_format not in ("binary", "json"):
        raise OptionError(f"valueFormat must be binary or json, not {value_format!r}")
    if value_format == "json":
        if "value" not in columns:
            raise OptionError("valueFormat=json needs the column value")
        return True
    for name in VALUE_OPTIONS[1:]:
        if name.lower() in given:
            raise OptionError(f"{name} is for valueFormat=json")
    return False


def _check_field(field: Any) -> None:
    expected = KAFKA_TYPES.get(field.name)
    if expected is None:
        raise OptionError(
            f"the schema has {field.name}, but the columns are {', '.join(KAFKA_TYPES)}; "
            "fields of values belong into value STRUCT<…>"
        )
    found = field.dataType.simpleString()
    if found != expected:
        hint = "; valueFormat=json reads it as a struct" if field.name == "value" else ""
        raise OptionError(f"{field.name} is {expected}, the schema says {found}{hint}")
    if not field.nullable:
        raise OptionError(f"the schema says that {field.name} is NOT NULL: leave it nullable")


def _json_format(given: Mapping[str, str], field: Any) -> JsonFormat:
    from ottla.spark.formats.datetimes import UnknownZone, zone_of
    from ottla.spark.formats.json_format import (
        CORRUPT_RECORD,
        MODES,
        PERMISSIVE,
        JsonFormat,
        arrow_struct,
    )

    if field.dataType.typeName() != "struct" or not field.nullable:
        raise OptionError(
            f"value is {field.dataType.simpleString()} in the schema: with valueFormat=json it is "
            "a nullable STRUCT<…> of the fields that are wanted"
        )
    mode = given.get("mode", PERMISSIVE).strip().upper()
    if mode not in MODES:
        raise OptionError(f"mode must be {', '.join(MODES[:-1])} or {MODES[-1]}, not {mode!r}")
    zone = given.get("timezone", "UTC").strip()
    try:
        zone_of(zone)
    except UnknownZone:
        raise OptionError(f"timeZone: there is no zone {zone!r}") from None
    corrupt = given.get("columnnameofcorruptrecord", CORRUPT_RECORD)
    return JsonFormat(arrow_struct(field.dataType, corrupt), mode, corrupt, zone)


def _with_struct(columns: tuple[str, ...], text: str) -> StructType:
    from pyspark.sql import types as t

    simple = {
        "binary": t.BinaryType(),
        "string": t.StringType(),
        "int": t.IntegerType(),
        "bigint": t.LongType(),
        "timestamp": t.TimestampType(),
    }
    header = t.StructType().add("key", t.StringType()).add("value", t.BinaryType())
    try:
        struct = t.StructType.fromJson(json.loads(text))
    except Exception as error:  # whatever PySpark stumbles over in a text that is not its own
        raise OptionError(f"schema is not Spark's JSON of a struct: {error!r}") from None
    whole = t.StructType()
    for name in columns:
        kind = simple.get(KAFKA_TYPES[name], t.ArrayType(header))
        whole.add(name, struct if name == "value" else kind)
    return whole

"""A pipeline from a YAML file. Every complaint is one line: the file, the job, the key.

Relative paths are relative to the file, so that a pipeline is the same wherever it is started.
"""

from __future__ import annotations

import dataclasses
import os
import zoneinfo
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ottla.config.definitions import nearest_name
from ottla.errors import KafkaError
from ottla.pipelines.spec import AVAILABLE_NOW, JOB_KINDS, Job, Pipeline
from ottla.pipelines.spec_keys import (
    LOOPBACK,
    Address,
    Kind,
    Restart,
    Source,
    SpecError,
    SpecErrors,
    TopicSpec,
    is_required,
    parse_duration_s,
    view_name,
    yaml_name,
)
from ottla.pipelines.spec_secrets import Filled, References
from ottla.topics import names

MAX_FILE_BYTES = 1_000_000
_LOCAL_SCHEMES = "://"
_TOPIC_KEYS = ("name", "partitions", "replication_factor", "configs")
_ADDRESS_KEYS = ("listen", "hosts")
MAX_PORT = 65_535
_RESTART_KEYS = ("attempts", "pause")
T = TypeVar("T")


def load_pipeline(path: str | Path, environment: Mapping[str, str] | None = None) -> Pipeline:
    """Raises SpecError for what the file says, OSError where it cannot be read. `environment` is
    the process's own unless said otherwise."""
    file = Path(path)
    data = file.read_bytes()
    if len(data) > MAX_FILE_BYTES:
        raise SpecError(f"{file}: over {MAX_FILE_BYTES} bytes is not a pipeline file")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SpecError(f"{file}: is not UTF-8 text") from None
    return parse_pipeline(text, str(file), file.parent, environment)


def parse_pipeline(
    text: str,
    file: str = "pipeline",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Pipeline:
    """`folder` is what relative paths are relative to."""
    document = _parse_yaml(text, file)
    if not isinstance(document, dict):
        raise SpecError(f"{file}: must hold names with values: name, checkpoints, jobs, …")
    references = References(os.environ if environment is None else environment, folder or Path())
    values = dict(document)
    items = values.pop("jobs", None)
    reader = _Reader(file, folder or Path())
    if not isinstance(items, list) or not items:
        hint = _suggestion("jobs", values) if items is None else ""
        raise SpecError(f"{file}: 'jobs' must be a list of at least one job{hint}")
    values = _checked(lambda: references.fill(values, ""), file)
    fields = reader.values(Pipeline, values, also=("jobs",))
    jobs, wrong = [], []
    for number, item in enumerate(items, 1):
        try:
            jobs.append(_read_job(item, number, file, folder or Path(), references))
        except SpecError as error:
            wrong.append(str(error))
    if wrong:
        raise SpecErrors(wrong)
    secrets = references.secrets()
    pipeline = Pipeline(**fields, jobs=tuple(jobs), file=file, secrets=secrets)
    pipeline = _checked(pipeline.named, file)
    _checked(pipeline.check, file)
    return pipeline


def override(pipeline: Pipeline, values: Mapping[str, Any], where: str) -> Pipeline:
    """The pipeline with some of its own values said anew; None leaves one as it is."""
    fields = _Reader(where, Path()).values(Pipeline, values, with_defaults=False)
    return dataclasses.replace(pipeline, **fields)


def job_from_values(kind: str, values: Mapping[str, Any], where: str, folder: Path) -> Job:
    """One job from names and values, as a file or a command line gives them."""
    job_class = JOB_KINDS[kind]
    job = job_class(**_Reader(where, folder).values(job_class, values))
    _checked(job.check, where)
    return job


def _read_job(item: Any, number: int, file: str, folder: Path, references: References) -> Job:
    where = f"{file}: job {number}"
    if not isinstance(item, dict) or len(item) != 1:
        raise SpecError(f"{where}: must be one kind of job with its values, as 'ingest: {{…}}'")
    ((kind, values),) = item.items()
    if kind not in JOB_KINDS:
        near = nearest_name(str(kind), JOB_KINDS)
        hint = f", did you mean {near!r}?" if near else f"; there are {', '.join(JOB_KINDS)}"
        raise SpecError(f"{where}: unknown kind of job {kind!r}{hint}")
    title = f"{where} ({kind})"
    if not isinstance(values, dict):
        raise SpecError(f"{title}: must hold names with values")
    values = _checked(lambda: references.fill(values, ""), title)
    return job_from_values(kind, values, title, folder)


def _checked(check: Callable[[], T], where: str) -> T:
    try:
        return check()
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from None


def _suggestion(missing: str, given: Mapping[Any, Any]) -> str:
    """What was probably meant to be the key that is missing."""
    near = nearest_name(missing, [str(name) for name in given])
    return f" ({near!r} is unknown)" if near else ""


class _Reader:
    """Values of one part of a file; `where` names the part in complaints."""

    def __init__(self, where: str, folder: Path) -> None:
        self._where = where
        self._folder = folder

    def values(
        self,
        into: type[Any],
        given: Mapping[Any, Any],
        *,
        also: tuple[str, ...] = (),
        with_defaults: bool = True,
    ) -> dict[str, Any]:
        """The fields of a dataclass that `given` names; paths that it does not name are relative
        to the folder too."""
        fields = {yaml_name(f): f for f in dataclasses.fields(into) if "kind" in f.metadata}
        self._refuse_unknown(given, [*fields, *also])
        read = {}
        for name, field in fields.items():
            if given.get(name) is not None:
                read[field.name] = self._value(name, field, given[name])
            elif is_required(field) and field.default_factory is dataclasses.MISSING:
                raise SpecError(f"{self._where}: {name!r} is missing")
            elif with_defaults and field.metadata["kind"] is Kind.PATH and field.default:
                read[field.name] = self._read_path(name, field.default)
        return read

    def _refuse_unknown(self, given: Mapping[Any, Any], known: list[str]) -> None:
        for name in given:
            if name not in known:
                near = nearest_name(str(name), known)
                hint = f", did you mean {near!r}?" if near else ""
                raise SpecError(f"{self._where}: unknown key {name!r}{hint}")

    def _value(self, name: str, field: dataclasses.Field[Any], value: Any) -> Any:
        kind: Kind = field.metadata["kind"]
        read = getattr(self, f"_read_{kind.name.lower()}")(name, value)
        choices, least = field.metadata["choices"], field.metadata["least"]
        if choices and read not in choices:
            near = nearest_name(str(value), choices)
            hint = f", did you mean {near!r}?" if near else ""
            raise SpecError(
                f"{self._where}: {name}: {value!r} is none of {', '.join(choices)}{hint}"
            )
        if least is not None and read < least:
            raise SpecError(f"{self._where}: {name}: {read} is less than {least}")
        return read

    def _wrong(self, name: str, value: Any, kind: Kind) -> SpecError:
        shown = repr(value) if len(repr(value)) < 60 else repr(value)[:57] + "…"
        return SpecError(f"{self._where}: {name}: {shown} is not {kind.value}")

    def _read_text(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(name, value, Kind.TEXT)
        return str(value)

    def _read_texts(self, name: str, value: Any) -> tuple[str, ...]:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(i, str) and i for i in items):
            raise self._wrong(name, value, Kind.TEXTS)
        return tuple(map(str, items))

    def _read_integer(self, name: str, value: Any) -> int:
        if isinstance(value, Filled) and value.strip().removeprefix("-").isdecimal():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, value, Kind.INTEGER)
        return value

    def _read_flag(self, name: str, value: Any) -> bool:
        if isinstance(value, Filled):
            value = {"true": True, "false": False}.get(value.strip().lower(), value)
        if not isinstance(value, bool):
            raise self._wrong(name, value, Kind.FLAG)
        return value

    def _read_path(self, name: str, value: Any) -> str:
        text = self._read_text(name, value)
        # hdfs://… and s3a://… are Spark's to understand.
        return text if _LOCAL_SCHEMES in text else str((self._folder / text).absolute())

    def _read_function(self, name: str, value: Any) -> str:
        place, colon, function = str(value).rpartition(":")
        if not colon or not place or not function.isidentifier():
            raise self._wrong(name, value, Kind.FUNCTION)
        if place.endswith(".py"):
            place = str((self._folder / place).absolute())
        return f"{place}:{function}"

    def _read_zone(self, name: str, value: Any) -> str:
        text = self._read_text(name, value)
        known = zoneinfo.available_timezones()
        # A machine without a list of them leaves it to Spark's Java, which has its own.
        if known and text not in known:
            near = nearest_name(text, known)
            hint = f", did you mean {near!r}?" if near else ""
            raise SpecError(f"{self._where}: {name}: {value!r} is not {Kind.ZONE.value}{hint}")
        return text

    def _read_duration(self, name: str, value: Any) -> float:
        try:
            return parse_duration_s(value)
        except (ValueError, AttributeError):
            raise self._wrong(name, value, Kind.DURATION) from None

    def _read_trigger(self, name: str, value: Any) -> str:
        if value != AVAILABLE_NOW:
            try:
                parse_duration_s(value)
            except (ValueError, AttributeError):
                raise self._wrong(name, value, Kind.TRIGGER) from None
        return str(value)

    def _read_settings(self, name: str, value: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise self._wrong(name, value, Kind.SETTINGS)
        settings = {}
        for setting, content in value.items():
            if not isinstance(setting, str) or isinstance(content, dict | list | None):
                raise self._wrong(f"{name}.{setting}", content, Kind.TEXT)
            # YAML's true is Python's True, which Java would not understand.
            settings[setting] = str(content).lower() if isinstance(content, bool) else str(content)
        return settings

    def _read_topic(self, name: str, value: Any) -> TopicSpec:
        if isinstance(value, str):
            return TopicSpec(self._topic_name(name, value))
        if not isinstance(value, dict):
            raise self._wrong(name, value, Kind.TOPIC)
        inner = _Reader(f"{self._where}: {name}", self._folder)
        inner._refuse_unknown(value, list(_TOPIC_KEYS))
        if "name" not in value:
            raise SpecError(f"{self._where}: {name}: 'name' is missing")
        numbers = {}
        for number in ("partitions", "replication_factor"):
            if number in value:
                numbers[number] = inner._read_integer(number, value[number])
                if numbers[number] < 1:
                    raise SpecError(f"{self._where}: {name}.{number}: must be at least 1")
        configs = inner._read_settings("configs", value.get("configs", {}))
        return TopicSpec(
            self._topic_name(f"{name}.name", value["name"]),
            **numbers,
            configs=tuple(sorted(configs.items())),
        )

    def _topic_name(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._wrong(name, value, Kind.TEXT)
        try:
            names.validate(value)
        except KafkaError as error:
            words = str(error)
            if isinstance(value, Filled):
                words = words.replace(value, value.shown) if value else words
            raise SpecError(f"{self._where}: {name}: {words}") from None
        return str(value)

    def _read_sources(self, name: str, value: Any) -> tuple[Source, ...]:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list) and value:
            sources = [Source(view_name(str(t)), self._topic_name(name, t)) for t in value]
        elif isinstance(value, dict) and value:
            sources = [
                Source(str(view), self._topic_name(f"{name}.{view}", topic))
                for view, topic in value.items()
            ]
        else:
            raise self._wrong(name, value, Kind.SOURCES)
        views = [source.view for source in sources]
        for view in views:
            if views.count(view) > 1:
                raise SpecError(f"{self._where}: {name}: two topics are called {view!r} in SQL")
        return tuple(sources)

    def _read_schema(self, name: str, value: Any) -> str:
        if isinstance(value, dict) and value:
            return ", ".join(
                f"`{column}` {self._read_text(f'{name}.{column}', kind)}"
                for column, kind in value.items()
            )
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(name, value, Kind.SCHEMA)
        return str(value.strip())

    def _read_address(self, name: str, value: Any) -> Address:
        """A port of this machine's own interface, an address, or both and names for it."""
        given = value if isinstance(value, dict) else {"listen": value}
        self._refuse_unknown(
            {f"{name}.{k}": 0 for k in given}, [f"{name}.{k}" for k in _ADDRESS_KEYS]
        )
        listen = given.get("listen")
        if isinstance(listen, int) and not isinstance(listen, bool):
            listen = f"{LOOPBACK}:{listen}"
        host, colon, port = str(listen).rpartition(":")
        if not colon or not host.strip("[]") or not port.isdecimal() or int(port) > MAX_PORT:
            raise self._wrong(name, value, Kind.ADDRESS)
        hosts = self._read_texts(f"{name}.hosts", given["hosts"]) if "hosts" in given else ()
        return Address(host.strip("[]"), int(port), hosts)

    def _read_restart(self, name: str, value: Any) -> Restart:
        if value == "never":
            return Restart(attempts=0)
        if not isinstance(value, dict):
            raise self._wrong(name, value, Kind.RESTART)
        inner = _Reader(f"{self._where}: {name}", self._folder)
        inner._refuse_unknown(value, list(_RESTART_KEYS))
        default = Restart()
        attempts = inner._read_integer("attempts", value.get("attempts", default.attempts))
        pause_s = inner._read_duration("pause", value["pause"]) if "pause" in value else None
        if attempts < 0:
            raise SpecError(f"{self._where}: {name}.attempts: must be at least 0")
        return Restart(attempts, default.pause_s if pause_s is None else pause_s)


def _parse_yaml(text: str, file: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
        """YAML lets the last of two equal keys win; here that is a slip."""

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        pairs = [(loader.construct_object(k, True), k) for k, _ in node.value]
        seen = set()
        for value, at in pairs:
            if isinstance(value, dict | list):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key is not text", at.start_mark
                )
            if value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{value!r} appears twice", at.start_mark
                )
            seen.add(value)
        built: dict[Any, Any] = loader.construct_mapping(node, deep=True)
        return built

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "is not YAML"
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise SpecError(f"{file}{line}: {problem}") from None
    except RecursionError:
        raise SpecError(f"{file}: nested too deeply") from None

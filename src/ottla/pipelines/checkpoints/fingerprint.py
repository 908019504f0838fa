"""What tells a job from others: where its rows come from, where they go, and what it makes of them.

When and how fast it does so (triggers, sizes of batches, settings of clients) may change without a
word. Nothing of Spark here, and no IO.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.pipelines.spec import Job, Mirror, Pipeline, StreamJob, Transform
from ottla.pipelines.spec_keys import Source, TopicSpec, yaml_name

# Options of readers that say how fast and where to begin, not what is read. All `kafka.*` too.
_PACE = frozenset(
    {
        "maxoffsetspertrigger",
        "minoffsetspertrigger",
        "maxtriggerdelay",
        "minpartitions",
        "minrecordsperpartition",
        "maxrecordsperpartition",
        "maxfilespertrigger",
        "maxbytespertrigger",
        "maxcachedfiles",
        "latestfirst",
        "failondataloss",
        "startingoffsets",
        "startingtimestamp",
        "startingoffsetsbytimestamp",
        "startingoffsetsbytimestampstrategy",
        "groupid",
        "groupidprefix",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "kafkaconsumer.polltimeoutms",
    }
)
# What a job's second query, that of its dead letters, depends on; `dead_letter` is its alone.
_OF_DEAD_LETTERS = frozenset({"from", "schema", "dead_letter"})
_QUOTED = re.compile(r"('(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`)", re.DOTALL)
_SHOWN_CHARS = 120
# Enough to see that a secret is another one, too little to guess it.
_DIGEST_DIGITS = 4

Fingerprint = dict[str, str]


def fingerprint(
    pipeline: Pipeline, job: StreamJob, stream: str, ids: Mapping[str, str], salt: str
) -> Fingerprint:
    """By key of the pipeline file; what is as it is by default is left out. `ids` are those of the
    clusters by their brokers: brokers may move. `stream` is one of the job's queries."""
    is_second = stream != job.name
    told: dict[str, Any] = {"kind": job.kind + stream.removeprefix(job.name)}
    if pipeline.topic_format_of(job) != "ottla":
        told["format of topics"] = pipeline.topic_format_of(job)
    told["cluster"] = ids.get(pipeline.servers_of(job), "")
    if isinstance(job, Mirror):
        told["cluster of to_bootstrap_servers"] = ids.get(job.to_bootstrap_servers, "")
    for field in dataclasses.fields(job):
        name, value = yaml_name(field), getattr(job, field.name)
        if not field.metadata.get("is_identity") or value == field.default:
            continue
        if name in _OF_DEAD_LETTERS if is_second else name != "dead_letter":
            told[name] = _text(job, value)
    options = {name.lower(): value for name, value in (job.options or {}).items()}
    for name, value in sorted(options.items()):
        if name not in _PACE and not name.startswith("kafka."):
            told[f"options.{name}"] = value
    return {
        name: _without_secrets(pipeline, str(text), salt) for name, text in told.items() if text
    }


def _text(job: Job, value: Any) -> str:
    if isinstance(value, TopicSpec):
        return value.name
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {content}" for name, content in sorted(value.items()))
    if isinstance(value, tuple) and all(isinstance(item, Source) for item in value):
        return _sources(job, value)
    if isinstance(value, tuple):
        return ", ".join(map(normal, value))
    return normal(str(value))


def _sources(job: Job, sources: Iterable[Source]) -> str:
    """Functions get them in order, SQL by name; to others they are a set."""
    if isinstance(job, Transform):
        return ", ".join(s.topic if s.view == s.topic else f"{s.view}: {s.topic}" for s in sources)
    return ", ".join(sorted(source.topic for source in sources))


def normal(text: str) -> str:
    """Line breaks and indents of SQL do not matter, but in quotes."""
    parts = _QUOTED.split(text)
    return "".join(
        part if index % 2 else re.sub(r"\s+", " ", part) for index, part in enumerate(parts)
    ).strip()


def _without_secrets(pipeline: Pipeline, text: str, salt: str) -> str:
    hidden = pipeline.secrets.hide(text)
    if hidden == text:
        return text
    digest = hashlib.sha256(f"{salt}{text}".encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{hidden} (#{digest})"


def differences(kept: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What has changed, key by key, in words. A cluster that does not tell its id is any."""
    changes = []
    for name in dict.fromkeys([*kept, *now]):
        before, after = kept.get(name), now.get(name)
        if before == after or (name.startswith("cluster") and not (before and after)):
            continue
        if before is None:
            changes.append(f"{name} is new: {_shown(after or '')}")
        elif after is None:
            changes.append(f"{name} is gone: {_shown(before)}")
        else:
            changes.append(f"{name} was {_shown(before, after)} and is {_shown(after, before)}")
    return changes


def _shown(text: str, other: str = "") -> str:
    """Of long texts the place where they begin to differ."""
    if len(text) <= _SHOWN_CHARS:
        return repr(text)
    pairs = enumerate(zip(text, other, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(text), len(other)))
    begin = max(min(same - _SHOWN_CHARS // 3, len(text) - _SHOWN_CHARS), 0)
    end = begin + _SHOWN_CHARS
    return repr("…" * (begin > 0) + text[begin:end] + "…" * (end < len(text)))

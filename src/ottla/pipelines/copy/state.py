"""What a copy knows about itself: who it is, how far it has come, and what is under way. Each is a
small JSON file (`folder.py`). Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ottla.client.sender import ProducerIdentity
from ottla.errors import OttlaError
from ottla.pipelines.copy.key_count import KeyCount
from ottla.pipelines.copy.order import OrderDigest
from ottla.pipelines.copy.parts import RangeResult, Tally
from ottla.pipelines.copy.spans import Span, thinned

_VERSION = 1
# Of all pairs of partitions together; each has two at least.
_MAX_SPANS = 20_000
_MAX_SEQUENCE = 1 << 31


class BadState(OttlaError):
    """A checkpoint that cannot be read, or is of another copy."""


@dataclass(frozen=True)
class Identity:
    """Whose checkpoint it is. Topics are known by their ids, clusters too: brokers move. `starting`
    and `ending` are bounds as they were typed: two hours ago is another time in every run."""

    source_cluster: str
    source_topic: str
    source_id: str
    target_cluster: str
    target_topic: str
    target_id: str
    target_partitions: int
    partitioner: str
    starting: str
    ending: str

    def differences(self, other: Identity) -> list[str]:
        mine, others = asdict(self), asdict(other)
        return [
            f"{name.replace('_', ' ')} {others[name] or '-'}, not {mine[name] or '-'}"
            for name in mine
            if mine[name] != others[name]
        ]


class Bounds(NamedTuple):
    """Times of records, in milliseconds; None where there is no bound."""

    from_ms: int | None = None
    to_ms: int | None = None


class FinalConfigs(NamedTuple):
    """Those that a target is to have in the end. `is_made`: the copy makes it; `target_id` is empty
    until it is there."""

    values: dict[str, str]
    target_id: str = ""
    is_made: bool = False


class Finished(NamedTuple):
    """What is known of a clone that is complete."""

    source_topic: str
    target_id: str
    records: int


@dataclass
class Pair:
    """What came from one source partition to one target partition."""

    order: OrderDigest = field(default_factory=OrderDigest)
    spans: list[Span] = field(default_factory=list)

    @property
    def next_sequence(self) -> int:
        return self.order.records % _MAX_SEQUENCE


class UnderWay(NamedTuple):
    """A micro-batch that has begun: its ranges by source partition, and where the target's
    partitions ended before."""

    batch: int
    ranges: dict[int, tuple[int, int]]
    bases: dict[int, int]


@dataclass
class CopyState:
    """After a whole number of micro-batches."""

    identity: Identity
    # Where the source was begun and the target ended, by partition.
    starts: dict[int, int]
    target_starts: dict[int, int]
    positions: dict[int, int]
    producers: dict[int, ProducerIdentity] = field(default_factory=dict)
    pairs: dict[tuple[int, int], Pair] = field(default_factory=dict)
    batch: int = 0
    tally: Tally = field(default_factory=Tally)
    aged_out: int = 0
    keys: KeyCount = field(default_factory=KeyCount)
    bounds: Bounds = field(default_factory=Bounds)

    def absorb(self, under_way: UnderWay, results: list[RangeResult]) -> None:
        for result in results:
            self.tally.add(result.tally)
            self.keys.merge(result.keys)
            for target, brought in result.pairs.items():
                pair = self.pairs.setdefault((result.source, target), Pair())
                pair.order = pair.order.then(brought.order)
                pair.spans += brought.spans
        most = max(2, _MAX_SPANS // max(len(self.pairs), 1))
        for pair in self.pairs.values():
            pair.spans = thinned(pair.spans, most)
        for partition, (_, end) in under_way.ranges.items():
            self.positions[partition] = end
        self.batch = under_way.batch

    def sequences(self, source: int) -> dict[int, int]:
        """The next ones of a source partition's producer, by target partition."""
        return {t: pair.next_sequence for (s, t), pair in self.pairs.items() if s == source}

    def records_in(self, target: int) -> int:
        return sum(pair.order.records for (_, t), pair in self.pairs.items() if t == target)

    def spans(self) -> dict[tuple[int, int], list[Span]]:
        return {key: pair.spans for key, pair in self.pairs.items()}


def encode(state: CopyState) -> bytes:
    value = {
        "version": _VERSION,
        "identity": asdict(state.identity),
        "starts": state.starts,
        "target_starts": state.target_starts,
        "positions": state.positions,
        "producers": state.producers,
        "pairs": [[*key, *pair.order, pair.spans] for key, pair in state.pairs.items()],
        "batch": state.batch,
        "tally": asdict(state.tally),
        "aged_out": state.aged_out,
        "keys": base64.b64encode(state.keys.registers()).decode(),
        "bounds": state.bounds,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def decode(data: bytes) -> CopyState:
    """Raises BadState."""
    value = _load(data)
    try:
        return CopyState(
            Identity(**value["identity"]),
            _numbers(value["starts"]),
            _numbers(value["target_starts"]),
            _numbers(value["positions"]),
            {int(p): ProducerIdentity(*one) for p, one in value["producers"].items()},
            {
                (s, t): Pair(OrderDigest(records, order), [Span(*span) for span in spans])
                for s, t, records, order, spans in value["pairs"]
            },
            int(value["batch"]),
            Tally(**value["tally"]),
            int(value["aged_out"]),
            KeyCount(base64.b64decode(value["keys"])),
            Bounds(*value["bounds"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadState(f"lacks what a copy needs to go on ({error!r})") from None


def encode_under_way(under_way: UnderWay) -> bytes:
    return json.dumps({"version": _VERSION, **under_way._asdict()}).encode()


def decode_under_way(data: bytes) -> UnderWay:
    value = _load(data)
    try:
        ranges = {int(p): (int(a), int(b)) for p, (a, b) in value["ranges"].items()}
        return UnderWay(int(value["batch"]), ranges, _numbers(value["bases"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadState(f"lacks what a copy needs to go on ({error!r})") from None


def encode_configs(final: FinalConfigs) -> bytes:
    value = {
        "version": _VERSION,
        "configs": final.values,
        "target_id": final.target_id,
        "is_made": final.is_made,
    }
    return json.dumps(value).encode()


def decode_configs(data: bytes) -> FinalConfigs:
    value = _load(data)
    configs = value.get("configs")
    if not isinstance(configs, dict) or not {"target_id", "is_made"} <= value.keys():
        raise BadState("lacks the configs of a topic")
    return FinalConfigs(
        {str(name): str(one) for name, one in configs.items()},
        str(value["target_id"]),
        bool(value["is_made"]),
    )


def encode_finished(finished: Finished) -> bytes:
    return json.dumps({"version": _VERSION, **finished._asdict()}).encode()


def decode_finished(data: bytes) -> Finished:
    value = _load(data)
    try:
        source, target = str(value["source_topic"]), str(value["target_id"])
        return Finished(source, target, int(value["records"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BadState(f"lacks what a copy needs to be known by ({error!r})") from None


def _load(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise BadState("is not JSON") from None
    if not isinstance(value, dict) or not isinstance(value.get("version"), int):
        raise BadState("is not the checkpoint of a copy")
    if value["version"] > _VERSION:
        raise BadState("was written by a later version of Ottla")
    return value


def _numbers(value: Mapping[str, int]) -> dict[int, int]:
    return {int(key): int(number) for key, number in value.items()}

"""The error form of every API's response, for exceptions that a handler lets through.

Kafka writes a `getErrorResponse` per request class. Here a response with an error code at its top
gets it there; the others repeat the request's entries (topics, partitions, groups, resources) with
the code on each. The table below names the lists; fields of the same name are copied.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ottla.broker.handlers import LoadedRoute
    from ottla.errors import ErrorCode
    from ottla.wire.schema import Field


class _Entries(NamedTuple):
    """A list of the request, the list of the response that mirrors it, and one level below."""

    requested: tuple[str, ...]
    answered: str
    struct: str
    below: _Entries | None = None
    # Each name is answered once, in order of names.
    once: bool = False


def _by_topic(struct: str, below: str, *, answered: str = "topics") -> _Entries:
    return _Entries(("topics",), answered, struct, _Entries(("partitions",), "partitions", below))


_ENTRIES: dict[int, _Entries] = {
    0: _Entries(
        ("topic_data",),
        "responses",
        "TopicProduceResponse",
        _Entries(("partition_data",), "partition_responses", "PartitionProduceResponse"),
    ),
    1: _by_topic("FetchableTopicResponse", "PartitionData", answered="responses"),
    2: _by_topic("ListOffsetsTopicResponse", "ListOffsetsPartitionResponse"),
    3: _Entries(("topics",), "topics", "MetadataResponseTopic"),
    8: _by_topic("OffsetCommitResponseTopic", "OffsetCommitResponsePartition"),
    9: _Entries(("groups",), "groups", "OffsetFetchResponseGroup"),
    10: _Entries(("coordinator_keys",), "coordinators", "Coordinator"),
    15: _Entries(("groups",), "groups", "DescribedGroup"),
    19: _Entries(("topics",), "topics", "CreatableTopicResult"),
    20: _Entries(("topics", "topic_names"), "responses", "DeletableTopicResult"),
    21: _by_topic("DeleteRecordsTopicResult", "DeleteRecordsPartitionResult"),
    23: _by_topic("OffsetForLeaderTopicResult", "EpochEndOffset"),
    24: _Entries(
        ("v3_and_below_topics",),
        "results_by_topic_v3_and_below",
        "AddPartitionsToTxnTopicResult",
        _Entries(("partitions",), "results_by_partition", "AddPartitionsToTxnPartitionResult"),
    ),
    27: _Entries(
        ("markers",),
        "markers",
        "WritableTxnMarkerResult",
        _Entries(
            ("topics",),
            "topics",
            "WritableTxnMarkerTopicResult",
            _Entries(("partition_indexes",), "partitions", "WritableTxnMarkerPartitionResult"),
        ),
    ),
    28: _by_topic("TxnOffsetCommitResponseTopic", "TxnOffsetCommitResponsePartition"),
    30: _Entries(("creations",), "results", "AclCreationResult"),
    31: _Entries(("filters",), "filter_results", "DeleteAclsFilterResult"),
    32: _Entries(("resources",), "results", "DescribeConfigsResult"),
    33: _Entries(("resources",), "responses", "AlterConfigsResourceResponse"),
    # Kafka answers these two with nothing in the list.
    34: _Entries((), "results", "AlterReplicaLogDirTopicResult"),
    35: _Entries((), "results", "DescribeLogDirsResult"),
    37: _Entries(("topics",), "results", "CreatePartitionsTopicResult"),
    42: _Entries(("groups_names",), "results", "DeletableGroupResult"),
    43: _Entries(
        ("topic_partitions",),
        "replica_election_results",
        "ReplicaElectionResult",
        _Entries(("partitions",), "partition_result", "PartitionResult"),
    ),
    44: _Entries(("resources",), "responses", "AlterConfigsResourceResponse"),
    45: _by_topic(
        "ReassignableTopicResponse", "ReassignablePartitionResponse", answered="responses"
    ),
    49: _Entries(("entries",), "entries", "EntryData"),
    51: _Entries(
        ("deletions", "upsertions"), "results", "AlterUserScramCredentialsResult", once=True
    ),
    61: _Entries(
        ("topics",),
        "topics",
        "TopicResponse",
        _Entries(("partition_indexes",), "partitions", "PartitionResponse"),
    ),
    65: _Entries(("transactional_ids",), "transaction_states", "TransactionState"),
    20004: _Entries(("topics",), "results", "UndeletedTopic"),
    20005: _Entries(("topics",), "results", "PurgedTopic"),
    20006: _Entries(("topics",), "results", "RenameResult"),
}

_IDENTITY_FIELDS = (
    "name",
    "new_name",
    "topic",
    "topic_id",
    "index",
    "partition",
    "partition_index",
    "group_id",
    "producer_id",
    "resource_type",
    "resource_name",
    "user",
)
# A request that lists plain names is answered under one of these fields.
_NAME_FIELDS = ("name", "group_id", "key", "transactional_id")
# So is one that lists bare partition numbers.
_NUMBER_FIELDS = ("partition_id", "partition_index")
# AddPartitionsToTxn has another name for a partition's error.
_ERROR_FIELDS = ("error_code", "partition_error_code")
# Offsets without a default in the schemas: 0 would be one.
_OFFSET_FIELDS = ("base_offset", "high_watermark", "low_watermark", "committed_offset")
_NO_OFFSET = -1
# Fetch calls a partition `partition` when asked and `partition_index` when answered; SCRAM's users
# have a `name` when asked for.
_ALIASES = {"partition_index": "partition", "user": "name"}


def error_response(
    loaded: LoadedRoute, request: Any, version: int, code: ErrorCode, message: str | None
) -> Generator[None, None, Any | None]:
    """A response that says `code` in every place that can, None where there is no such place. It
    is long where the request was: the work may be left at every `yield`."""
    form = _Form(loaded.response_class, version, int(code), message)
    response = loaded.response_class()
    schema = loaded.response_class.SCHEMA
    form.set_error(response, schema.fields)
    entries = _ENTRIES.get(loaded.route.api_key)
    if entries is not None:
        yield from form.fill(response, request, entries, schema.fields)
    elif not _carries(schema.fields, "error_code", version):
        return None
    return response


class _Form(NamedTuple):
    """What goes into every place of one error response."""

    response_class: Any
    version: int
    code: int
    message: str | None

    def set_error(self, item: Any, fields: Iterable[Field]) -> None:
        for name in _ERROR_FIELDS:
            if _carries(fields, name, self.version):
                setattr(item, name, self.code)
        for name in _OFFSET_FIELDS:
            if _carries(fields, name, self.version):
                setattr(item, name, _NO_OFFSET)
        if self.message is not None and _carries(fields, "error_message", self.version):
            item.error_message = self.message

    def fill(
        self, answer: Any, asked: Any, entries: _Entries, fields: Iterable[Field]
    ) -> Generator[None, None, None]:
        if not _carries(fields, entries.answered, self.version):
            return
        struct = getattr(self.response_class, entries.struct)
        struct_fields = self.response_class.SCHEMA.structs[entries.struct].fields
        items = []
        for name in entries.requested:
            for entry in getattr(asked, name, None) or ():
                item = struct()
                _copy_identity(item, entry)
                if entries.below is not None:
                    yield from self.fill(item, entry, entries.below, struct_fields)
                self.set_error(item, struct_fields)
                items.append(item)
                yield
        if entries.once:
            by_user = {item.user: item for item in items}
            items = [by_user[user] for user in sorted(by_user)]
        setattr(answer, entries.answered, items)


def _carries(fields: Iterable[Field], name: str, version: int) -> bool:
    return any(field.name == name and version in field.versions for field in fields)


def _copy_identity(item: Any, entry: Any) -> None:
    if isinstance(entry, int):
        setattr(item, next(name for name in _NUMBER_FIELDS if hasattr(item, name)), entry)
        return
    if isinstance(entry, str):
        field = next(name for name in _NAME_FIELDS if hasattr(item, name))
        setattr(item, field, entry)
        return
    for field in _IDENTITY_FIELDS:
        source = field if hasattr(entry, field) else _ALIASES.get(field, field)
        if hasattr(item, field) and hasattr(entry, source):
            value = getattr(entry, source)
            # Requests may leave a name out where no answer may (KAFKA-12701).
            setattr(item, field, "" if value is None else value)

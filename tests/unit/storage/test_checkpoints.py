"""The small text files of a data folder, there and back."""

from __future__ import annotations

import pytest

from ottla.storage import checkpoints
from ottla.types import TopicPartition
from tests.support.storage.log_managers import TOPIC_ID

A, B = TopicPartition("a", 0), TopicPartition("b.c-d", 1)


@pytest.mark.parametrize(
    "text", ["1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n", "x\n", "0\n", "\xff"]
)
def test_damaged_checkpoints_are_noticed(text: str) -> None:
    with pytest.raises(checkpoints.CheckpointDamaged):
        checkpoints.decode_offsets(text.encode("latin-1"))


def test_checkpoints_round_trip() -> None:
    offsets = {A: 5, B: 0}
    assert checkpoints.decode_offsets(checkpoints.encode_offsets(offsets)) == offsets
    assert checkpoints.decode_offsets(b"") == {}
    assert checkpoints.decode_epochs(checkpoints.encode_epochs([(0, 0), (3, 12)])) == [
        (0, 0),
        (3, 12),
    ]
    text = checkpoints.encode_partition_metadata(TOPIC_ID)
    assert text == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoints.decode_partition_metadata(text) == TOPIC_ID
    assert checkpoints.decode_partition_metadata(b"") is None
    with pytest.raises(checkpoints.CheckpointDamaged):
        checkpoints.decode_partition_metadata(b"version: 0\ntopic_id: " + b"A" * 22)

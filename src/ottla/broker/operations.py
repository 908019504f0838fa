"""Authorized operations as responses carry them: bit n is ACL operation code n (KIP-430).

Without an authoriser every operation of a resource is allowed.
"""

from __future__ import annotations

NOT_ASKED_FOR = -(2**31)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


# READ 3, WRITE 4, CREATE 5, DELETE 6, ALTER 7, DESCRIBE 8, CLUSTER_ACTION 9, DESCRIBE_CONFIGS 10,
# ALTER_CONFIGS 11, IDEMPOTENT_WRITE 12.
TOPIC_OPERATIONS = _bits(3, 4, 5, 6, 7, 8, 10, 11)
CLUSTER_OPERATIONS = _bits(5, 7, 8, 9, 10, 11, 12)

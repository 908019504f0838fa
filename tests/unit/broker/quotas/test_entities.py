"""Whose quota counts, and the names of users, clients and addresses in the store."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.quotas.entities import Entity, parse_entity, resolve
from ottla.metadata.entity_configs import sanitize


@pytest.mark.parametrize(
    ("levels", "winner", "bucket"),
    [
        ([("u", "c"), ("u", "<default>")], ("u", "c"), ("u", "c")),
        ([("u", "<default>"), ("u", None)], ("u", "<default>"), ("u", "c")),
        ([("u", None), ("<default>", "c")], ("u", None), ("u", None)),
        ([("<default>", "c"), ("<default>", "<default>")], ("<default>", "c"), ("u", "c")),
        ([("<default>", "<default>"), ("<default>", None)], ("<default>",) * 2, ("u", "c")),
        ([("<default>", None), (None, "c")], ("<default>", None), ("u", None)),
        ([(None, "c"), (None, "<default>")], (None, "c"), (None, "c")),
        ([(None, "<default>")], (None, "<default>"), (None, "c")),
    ],
)
def test_the_nearest_quota_counts(levels: Any, winner: Any, bucket: Any) -> None:
    rates = {Entity(*level): float(number + 1) for number, level in enumerate(levels)}
    assert resolve(rates, "u", "c") == (rates[Entity(*winner)], Entity(*bucket))


def test_a_client_without_an_id_has_quotas_of_users_only() -> None:
    of_clients = {Entity("u", "<default>"): 1.0, Entity(None, "<default>"): 2.0}
    assert resolve(of_clients, "u", "") is None
    of_users = of_clients | {Entity("<default>", None): 3.0}
    assert resolve(of_users, "u", "") == (3.0, Entity("u", None))


def test_names_as_in_paths() -> None:
    assert sanitize("a b*~/c") == "a%20b%2A%7E%2Fc"
    assert parse_entity("users/u/clients/c") == Entity("u", "c")
    assert parse_entity("users/<default>") == Entity("<default>", None)
    assert parse_entity("clients/c") == Entity(None, "c")
    # Written by hand in another form: clients are compared unescaped, users as they stand there.
    assert parse_entity("clients/a%2fb+c") == parse_entity("clients/a%2Fb%20c")
    assert parse_entity("users/a%2fb") != parse_entity("users/a%2Fb")
    assert parse_entity("ips/1.2.3.4") == Entity(None, None, "1.2.3.4")
    assert parse_entity("users/u/groups/g") is None

from __future__ import annotations

import pytest

from ottla.console.api.znodes import MAX_SHOWN_BYTES, normalised, shown
from ottla.console.web.failures import ApiError
from ottla.metadata.token_znodes import TokenZnode


def test_paths() -> None:
    assert [normalised(path) for path in ("/", "//", "/a/b/")] == ["/", "/", "/a/b"]
    for path in ("", "a", "/a//b", "/a/../b", "/a/\0"):
        with pytest.raises(ApiError):
            normalised(path)


def test_data_of_every_kind() -> None:
    assert shown("/", None).kind == "none" and shown("/", b"").kind == "empty"
    assert shown("/", b'{"a":18446744073709551616}').text == '{\n  "a": 18446744073709551616\n}'
    assert shown("/", b"[" * 100_000).kind == "text"
    assert shown("/", "grün".encode()).text == "grün"
    assert shown("/", b"\x00\xff").text.startswith("000000  00 ff")
    cut = shown("/", "é".encode() * MAX_SHOWN_BYTES)
    assert cut.kind == "text" and cut.is_cut


@pytest.mark.parametrize(
    "data",
    [b'{"config":{"SCRAM-SHA-512":"s3cr3t"}}', b"s3cr3t", b'["s3cr3t"]', b'{"hmac":"s3cr3t"}'],
)
def test_what_is_as_good_as_a_password_is_hidden(data: bytes) -> None:
    for path in (
        "/config/users/alice",
        "/config/users/a/clients/b",
        TokenZnode.path("x"),
        "/kafka/config/users/alice",  # of a cluster below another node
    ):
        told = shown(path, data)
        assert told.is_hidden and "s3cr3t" not in told.text


def test_passwords_of_brokers_are_hidden_and_their_other_configs_shown() -> None:
    data = b'{"config":{"listener.name.a.ssl.keystore.password":"s3cr3t","num.io.threads":"8"}}'
    told = shown("/config/brokers/1", data)
    assert told.is_hidden and "s3cr3t" not in told.text and '"num.io.threads": "8"' in told.text
    plain = shown("/config/brokers/1", b'{"config":{"num.io.threads":"8"}}')
    assert not plain.is_hidden

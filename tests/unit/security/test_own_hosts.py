from __future__ import annotations

import pytest

from ottla.security.own_hosts import host_name, names_us


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Kafka.Example:8080", "kafka.example"),
        ("kafka.example.", "kafka.example"),
        ("[::1]:8080", "::1"),
        ("::1", "::1"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_the_name_alone(given: str, name: str) -> None:
    assert host_name(given) == name


def test_addresses_are_nobody_elses() -> None:
    assert names_us("10.1.2.3:80", ())
    assert not names_us("10.1.2.3.evil.example", ())
    assert not names_us("localhost", ())
    assert names_us("localhost", {"localhost"})

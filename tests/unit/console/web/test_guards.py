from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from ottla.console.web.guards import Guards


async def _nobody(*_: object) -> None:
    raise AssertionError("nothing is asked of the application here")


def refusal(method: str = "GET", path: str = "/", **headers: str) -> str | None:
    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    guards = Guards(_nobody, names=frozenset({"kafka.example"}))
    found = guards.refusal(Headers(raw=lines), method, path)
    return None if found is None else found.code


@pytest.mark.parametrize(
    "host", ["localhost:8080", "127.0.0.1", "[::1]:8080", "10.0.0.7:8080", "Kafka.Example:8080"]
)
def test_hosts_that_are_ours(host: str) -> None:
    assert refusal(host=host) is None


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8080", "", "kafka"])
def test_names_that_were_made_to_point_here(host: str) -> None:
    assert refusal(host=host) == "WRONG_HOST"


def test_a_host_is_named_once() -> None:
    guards = Guards(_nobody, names=frozenset())
    twice = Headers(raw=[(b"host", b"localhost"), (b"host", b"evil.example")])
    found = guards.refusal(twice, "GET")
    assert found is not None and found.code == "WRONG_HOST"
    none = guards.refusal(Headers(raw=[]), "GET")
    assert none is not None and none.code == "WRONG_HOST"


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost:9999",
        "http://localhost:8080.evil.example",
        "http://[x",
    ],
)
def test_origins_of_others(origin: str) -> None:
    assert refusal("POST", host="localhost:8080", origin=origin) == "WRONG_ORIGIN"
    assert refusal("GET", host="localhost:8080", origin=origin) == "WRONG_ORIGIN"


def test_our_own_origin() -> None:
    assert refusal("POST", host="localhost:8080", origin="http://localhost:8080") is None


def test_a_link_from_elsewhere_opens_a_page_and_nothing_more() -> None:
    elsewhere = {"host": "localhost", "sec_fetch_site": "cross-site"}
    assert refusal("GET", **elsewhere, sec_fetch_mode="navigate") is None
    assert refusal("GET", **elsewhere, sec_fetch_mode="no-cors") == "WRONG_ORIGIN"
    assert refusal("POST", **elsewhere, sec_fetch_mode="navigate") == "WRONG_ORIGIN"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_from_elsewhere_does_not_open_the_api(site: str) -> None:
    """It comes without the cookie, and the answer's new one would end the reader's session."""
    opened = {"host": "localhost", "sec_fetch_site": site, "sec_fetch_mode": "navigate"}
    assert refusal("GET", "/api/v1/session", **opened) == "WRONG_ORIGIN"
    assert refusal("GET", "/topics", **opened) is None


def test_a_session_is_not_opened_as_a_page() -> None:
    """To an address without TLS browsers do not say from where they come."""
    assert refusal("GET", "/api/v1/session", host="10.0.0.7", accept="text/html,*/*") == (
        "WRONG_ORIGIN"
    )
    assert refusal("GET", "/api/v1/session", host="10.0.0.7", accept="*/*") is None

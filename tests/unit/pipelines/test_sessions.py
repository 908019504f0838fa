"""Sessions of pipelines, as far as they need no Spark."""

from __future__ import annotations

import socket

import pytest

from ottla.errors import OttlaError
from ottla.pipelines.sessions import pipeline_session
from ottla.pipelines.spec import Pipeline


def test_a_server_of_spark_connect_that_is_not_there_is_one_line():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for url, words in (
        (f"sc://127.0.0.1:{port}/;token=x", "no server of Spark Connect answers: Connection ref"),
        ("sc://127.0.0.1:99999", "Port out of range"),
    ):
        with (
            pytest.raises(OttlaError, match=f"^{url}: {words}"),
            pipeline_session(Pipeline(master=url)),
        ):
            pass

"""Versions of PySpark that cannot be served are told apart without starting them."""

import pyspark
import pytest

from ottla.spark.launch import session
from ottla.spark.launch.pyspark_version import is_too_old, pyspark_version


def test_the_installed_one():
    assert pyspark_version() == pyspark.__version__
    assert not is_too_old(pyspark_version())


@pytest.mark.parametrize(
    ("version", "old"), [("3.5.9", True), ("4.0.0.dev2", False), ("10.1", False), ("main", False)]
)
def test_what_is_too_old(version, old):
    assert is_too_old(version) is old


def test_it_is_said_before_a_session_is_started(monkeypatch):
    monkeypatch.setattr(session, "pyspark_version", lambda: "3.5.9")
    assert session.missing_reason() == (
        "PySpark 3.5.9 has no data sources in Python: pip install 'ottla[spark]'"
    )

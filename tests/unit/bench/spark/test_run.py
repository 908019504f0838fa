"""`ottla bench spark`: which rows there are, and how large."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.bench import spark
from ottla.bench.spark import run
from ottla.bench.table import Row
from ottla.config.catalog import broker_definitions
from ottla.errors import OttlaError


@pytest.fixture(autouse=True)
def no_spark_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "missing_reason", lambda: None)


def test_the_broker_knows_its_settings() -> None:
    assert set(run.BROKER_SETTINGS) <= set(broker_definitions())


def test_an_unknown_row_is_named() -> None:
    with pytest.raises(OttlaError, match="no such row: fast"):
        spark.main(only=["read,fast"])


@pytest.mark.parametrize("text", ["", "much", "0", "-1", "nan", "11"])
def test_a_scale_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("OTTLA_BENCH_SCALE", text)
    with pytest.raises(OttlaError, match=r"OTTLA_BENCH_SCALE is .*, it must be a number above 0"):
        spark.main(only=["read"])


def test_the_scale_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def noted(wanted: list[str], scale: float) -> list[Row]:
        asked.append((wanted, scale))
        return []

    monkeypatch.setattr(run, "run", noted)
    monkeypatch.setenv("OTTLA_BENCH_SCALE", "0.1")
    assert spark.main(only=["floor,read"]) == 0
    spark.main(only=["floor"], scale=0.5)
    assert asked == [(["read", "floor"], 0.1), (["floor"], 0.5)]

"""`kill -9` of the Spark driver, of Python workers and of a broker, in the middle of a stream.

Records go from a topic through a shuffle to another topic, and from there to a Parquet archive.
Afterwards another client (confluent-kafka, read_committed) finds every record in the topic exactly
once, and so does pyarrow in the archive. The order, the places and the victims come from the seed.

The campaign repeats some rounds with `deliveryGuarantee=at_least_once`, which promises less, and
writes down what the judge found there.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.launch.session import missing_reason
from tests.support.campaign import table, write_page
from tests.support.judges import need
from tests.support.spark.kill_round import (
    BROKERS,
    KILLS,
    KILLS_AND_CHECKPOINT,
    RECORDS,
    RECORDS_PER_SECOND,
    SLOW,
    Round,
    Verdict,
    run_round,
)

pytestmark = pytest.mark.spark

ROUNDS = 20
ROUNDS_AT_LEAST_ONCE = 3


@pytest.fixture(autouse=True)
def needs_spark() -> None:
    need(missing_reason())


def judged_round(seed: int, folder: Path, **differences: Any) -> Round:
    done = run_round(seed, folder, **differences)
    assert done.topic.is_exactly_once, f"seed {seed}, topic: {done.topic}, see {folder}"
    assert done.archive.is_exactly_once, f"seed {seed}, archive: {done.archive}, see {folder}"
    shutil.rmtree(folder)
    return done


def test_the_verdict_sees_what_is_missing_and_what_is_twice() -> None:
    numbers = [*range(RECORDS)]
    assert Verdict.of(numbers, RECORDS).is_exactly_once
    assert str(Verdict.of([*numbers[:-1], 5, 5], RECORDS)) == "1 missing, 1 more than once"
    assert not Verdict.of([*numbers, RECORDS], RECORDS).is_exactly_once


@pytest.mark.timeout(1800)
def test_every_record_is_there_once_after_kills(tmp_path: Path) -> None:
    """And after an older checkpoint that is put back, and refused."""
    seed, kills = int(os.environ.get("OTTLA_SEED", 7)), (*KILLS, "checkpoint")
    done = judged_round(seed, tmp_path / "round", kills=kills)
    assert len(done.kills) == len(kills)
    assert done.lost_tasks + done.failed_queries > 0


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_an_older_checkpoint_is_refused_and_the_newest_goes_on(
    campaign: None, tmp_path: Path
) -> None:
    """Between kills the checkpoint of an earlier moment is put back, and then the newest."""
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    done = judged_round(seed, tmp_path / "round", kills=KILLS_AND_CHECKPOINT)
    assert len(done.kills) == len(KILLS_AND_CHECKPOINT)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_tasks_longer_than_a_transaction_under_kills(campaign: None, tmp_path: Path) -> None:
    """The stream takes 20 ms over a row, the brokers abort what is open for three seconds."""
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    done = judged_round(seed, tmp_path / "round", load=SLOW)
    assert len(done.kills) == len(KILLS)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_twenty_rounds_of_kills(campaign: None, tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    done = [judged_round(seed + index, tmp_path / f"round-{index}") for index in range(ROUNDS)]
    loose = [
        run_round(seed + index, tmp_path / f"loose-{index}", guarantee="at_least_once")
        for index in range(ROUNDS_AT_LEAST_ONCE)
    ]
    results = table(Round.HEAD, (found.row() for found in done))
    compared = table(Round.HEAD, (found.row() for found in loose))
    write_page(
        "exactly-once",
        "Spark, a topic and Parquet under kill -9",
        "Records go from a topic through a shuffle to another topic and on to a Parquet archive, "
        "while the Spark driver (with its JVM), Python workers and a broker are killed; afterwards "
        "confluent-kafka (read_committed) and pyarrow must find every record exactly once "
        "(`tests/spark/test_exactly_once_kills.py`).",
        {
            "brokers": f"{BROKERS} processes, replication factor {BROKERS}, min.insync.replicas 2",
            "records": f"at least {RECORDS} a round, {RECORDS_PER_SECOND} per second",
            "rounds": f"{len(done)} of {ROUNDS} passed, seeds from {seed}",
        },
        f"{results}\n\nThe same with `deliveryGuarantee=at_least_once`, which promises less: "
        f"a judge that cannot say no would be worth nothing.\n\n{compared}",
    )

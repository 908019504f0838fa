"""`kill -9` of the Spark driver, of Python workers and of a broker, in the middle of a stream.

Records go from a topic through a shuffle to another topic, and from there to a Parquet archive.
Afterwards another client (confluent-kafka, read_committed) finds every record in the topic exactly
once, and so does pyarrow in the archive. The order, the places and the victims come from the seed.

The campaign has rounds with an older checkpoint and with slow rows among its twenty, and some with
`deliveryGuarantee=at_least_once`, in which nothing may be missing.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from ottla.spark.launch.session import missing_reason
from tests.support.campaign import table, write_page
from tests.support.judges import need
from tests.support.spark.kill_round import (
    BROKERS,
    CASES,
    KILLS,
    LOAD,
    RECORDS,
    SLOW,
    Case,
    Load,
    Round,
    Verdict,
    run_round,
)

pytestmark = pytest.mark.spark

ROUNDS = 20


@pytest.fixture(autouse=True)
def needs_spark() -> None:
    need(missing_reason())


def test_the_verdict_sees_what_is_missing_and_what_is_twice() -> None:
    numbers = [*range(RECORDS)]
    assert Verdict.of(numbers, RECORDS).is_exactly_once
    assert str(Verdict.of([*numbers[:-1], 5, 5], RECORDS)) == "1 missing, 1 more than once"
    assert not Verdict.of([*numbers, RECORDS], RECORDS).is_exactly_once
    assert Verdict.of([*numbers, 5], RECORDS).is_at_least_once
    assert not Verdict.of(numbers[1:], RECORDS).is_at_least_once
    assert not Round(7).is_exactly_once and not Round(7).is_at_least_once, "nothing was judged"


@pytest.mark.timeout(1800)
def test_every_record_is_there_once_after_kills(tmp_path: Path) -> None:
    """And after an older checkpoint that is put back, and refused."""
    seed, kills = int(os.environ.get("OTTLA_SEED", 7)), (*KILLS, "checkpoint")
    folder = tmp_path / "round"
    done = run_round(seed, folder, case=Case("all", kills, Load(records=3_000)))
    assert done.is_exactly_once, f"seed {seed}, {done.found}, see {folder}"
    assert len(done.kills) == len(kills)
    assert done.lost_tasks + done.failed_queries > 0


@pytest.mark.campaign
@pytest.mark.timeout(10_800)
def test_twenty_rounds_of_kills(campaign: None, tmp_path: Path) -> None:
    """All of them, also where one fails: its folder stays, and the page says so."""
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    cases = [CASES[index % len(CASES)] for index in range(ROUNDS)]
    strict = [tried_round(seed + n, tmp_path / f"round-{n}", case) for n, case in enumerate(cases)]
    # Without notes of its micro-batches the sink cannot tell an older checkpoint.
    loose = [
        tried_round(seed + n, tmp_path / f"loose-{n}", case, "at_least_once")
        for n, case in enumerate(case for case in CASES if case.kills is KILLS)
    ]
    passed = sum(done.is_exactly_once for done in strict)
    lossless = sum(done.is_at_least_once for done in loose)
    results = table(Round.HEAD, (found.row() for found in strict))
    compared = table(Round.HEAD, (found.row() for found in loose))
    write_page(
        "exactly-once",
        "Spark, a topic and Parquet under kill -9",
        "Records go from a topic through a shuffle to another topic and on to a Parquet archive, "
        "while the Spark driver (with its JVM), Python workers and a broker are killed; afterwards "
        "confluent-kafka (read_committed) and pyarrow must find every record exactly once "
        '(`tests/spark/test_exactly_once_kills.py`). In rounds called "older checkpoint" the '
        "checkpoint of an earlier moment is put back, must be refused, and the newest goes on; "
        f'in those called "slow rows" a task takes {SLOW.row_ms:.0f} ms over each row, in no '
        f"shuffle, and the brokers abort what is open for {SLOW.transaction_timeout_ms} ms.",
        {
            "brokers": f"{BROKERS} processes, replication factor {BROKERS}, min.insync.replicas 2",
            "records": f"at least {LOAD.records} a round, {LOAD.per_second} per second; slow rows: "
            f"{SLOW.records}, {SLOW.per_second} per second",
            "rounds": f"{passed} of {len(strict)} passed, seeds from {seed}",
            "at least once": f"{lossless} of {len(loose)} without loss",
        },
        f"{results}\n\nThe same with `deliveryGuarantee=at_least_once`, which promises that "
        f"nothing is missing: a judge that cannot say no would be worth nothing.\n\n{compared}",
    )
    assert (passed, lossless) == (len(strict), len(loose)), f"see the page and {tmp_path}"


def tried_round(seed: int, folder: Path, case: Case, guarantee: str = "exactly_once") -> Round:
    try:
        done = run_round(seed, folder, guarantee, case)
    except Exception as error:
        print(f"  seed {seed} was not finished: {error}", flush=True)
        return Round(seed, case.name, trouble=str(error).splitlines()[0])
    if done.is_exactly_once or (guarantee == "at_least_once" and done.is_at_least_once):
        shutil.rmtree(folder)
    return done

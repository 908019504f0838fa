"""franz-go's live tests of `pkg/kgo`, compiled by `make peers`, judge one broker of ours.

50,000 records go through chains of consumer groups, with and without transactions, under every
balancer, while members come and go. franz_go/expected.json names every test that needs a broker
and what it does here: those of KIP-848 and of share groups skip themselves (docs/client-suites.md).
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import ApacheKafka
from ottla.testing.peers import peer_folder
from tests.support.peers.client_suites import differences, need_suite

EXPECTED = Path(__file__).parent / "franz_go" / "expected.json"
RECORDS = 50_000
PARALLEL = 8
TIME_LIMIT_S = 540
OUTCOME = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)
COMPLAINT = re.compile(r"_test\.go:|sendErr|--- FAIL|^panic")
WORDS = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
JUDGED = os.environ.get("OTTLA_JUDGED", "ottla")

pytestmark = [pytest.mark.peers, pytest.mark.timeout(TIME_LIMIT_S + 120)]


@pytest.fixture
def one_broker(request):
    need_suite("franz-go", "Go")
    if JUDGED == "ottla":
        with ProcessCluster(brokers=1) as cluster:
            yield cluster
        return
    zookeeper = request.getfixturevalue("apache_zookeeper")
    with ApacheKafka(f"{zookeeper.address}/franz-go", name=JUDGED) as kafka:
        yield kafka


def test_groups_transactions_and_direct_consumers(one_broker):
    expected = json.loads(EXPECTED.read_text())
    live = "|".join(sorted({name.partition("/")[0] for name in expected}))
    finished = subprocess.run(
        [
            *(peer_folder("franz-go") / "tests", "-test.v"),
            *(f"-test.run=^({live})$", f"-test.timeout={TIME_LIMIT_S}s"),
            # Most of the time its tests pause: more of them at a time than there are cores.
            f"-test.parallel={PARALLEL}",
        ],
        env={
            **os.environ,
            "KGO_SEEDS": one_broker.bootstrap_servers,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(RECORDS),
            "KGO_LOG_LEVEL": "none",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIME_LIMIT_S + 30,
        check=False,
    )
    outcomes = {name: WORDS[word] for word, name in OUTCOME.findall(finished.stdout)}
    different = differences(outcomes, expected)
    assert not different, "\n".join([*different, complaints(finished.stdout)])


def complaints(printed):
    """The lines that say what went wrong, and the last ones: a panic or a time-out is there."""
    lines = printed.splitlines()
    said = [line for line in lines if COMPLAINT.search(line) and ": deleting " not in line]
    return "\n".join([*said[:100], "…", *lines[-50:]])

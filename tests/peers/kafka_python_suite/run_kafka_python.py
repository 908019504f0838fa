"""Runs kafka-python's own integration tests on one broker and writes what came out as JSON.

python tests/peers/kafka_python_suite/run_kafka_python.py outcomes.json
python tests/peers/kafka_python_suite/run_kafka_python.py outcomes.json --judged kafka-4.1
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from xml.etree import ElementTree

from ottla.testing.java import ApacheKafka, ApacheZooKeeper, KraftKafka
from ottla.testing.peers import peer_folder

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))
from tests.support.peers.ottla_brokers import OttlaBrokers, ottla_zookeeper  # noqa: E402

SUITE = "kafka-python-suite"
CLAIMED_VERSION = "3.7.2"
PER_TEST_TIMEOUT_S = 60
# What the suite's own servers are set to; without it, some tests ask in vain of any broker.
SETTINGS = {
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
KRAFT_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@contextmanager
def one_broker(judged: str, folder: Path) -> Iterator[str]:
    """Starts the broker to judge; gives its address."""
    with ExitStack() as stack:
        if judged == "ottla":
            store = stack.enter_context(ottla_zookeeper(folder / "store"))
            brokers = stack.enter_context(OttlaBrokers(store, folder, [0], SETTINGS))
            yield brokers.bootstrap_servers
        elif judged == "kafka-4.1":
            settings = {**SETTINGS, "authorizer.class.name": KRAFT_AUTHORIZER}
            yield stack.enter_context(KraftKafka(overrides=settings)).bootstrap_servers
        else:
            zookeeper = stack.enter_context(ApacheZooKeeper())
            kafka = ApacheKafka(zookeeper.address, name=judged, overrides=SETTINGS)
            yield stack.enter_context(kafka).bootstrap_servers


def run_suite(address: str, folder: Path, version: str, arguments: Sequence[str]) -> Path:
    """Runs the suite in `folder`; gives the JUnit report."""
    tests = folder / "test"
    shutil.copytree(peer_folder(SUITE) / "test", tests)
    # The sdist has no `__init__.py` either: Python's own package `test` would win.
    (tests / "__init__.py").touch()
    shutil.copy(HERE / "stubs" / "service.py", tests)
    report = folder / "report.xml"
    environment = {name: value for name, value in os.environ.items() if name != "ZOOKEEPER_URI"}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(folder), str(HERE / "stubs")]),
        "KAFKA_URI": f"kafka://{address}",
        "KAFKA_VERSION": version,
        "KAFKA_ROOT": str(folder),
    }
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-W", "ignore", f"--junitxml={report}"),
        *("-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:ottla", "-p", "no:logging"),
        *("-p", "subscriptions_kept"),
        *("-c", os.devnull, "--rootdir", str(folder), f"--timeout={PER_TEST_TIMEOUT_S}"),
        *("--tb=short", "--durations=10", *(arguments or ["test/integration"])),
    ]
    subprocess.run(command, cwd=folder, env=environment, check=False)
    return report


def outcomes_of(report: Path) -> dict[str, list[str]]:
    """{test: [passed, failed or skipped, why]} of a JUnit report."""
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.attrib["classname"].removeprefix("test.integration.")
        outcome, reason = "passed", ""
        for kind in ("skipped", "failure", "error"):
            note = case.find(kind)
            if note is not None:
                outcome = "skipped" if kind == "skipped" else "failed"
                reason = note.attrib.get("message", "").partition("\n")[0]
        outcomes[f"{module}.{case.attrib['name']}"] = [outcome, reason]
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument(
        "--judged",
        default=os.environ.get("OTTLA_JUDGED", "ottla"),
        choices=["ottla", "kafka-2.8.2", "kafka-4.1"],
    )
    parser.add_argument("--version", default=CLAIMED_VERSION, help="the KAFKA_VERSION to claim")
    parser.add_argument("tests", nargs="*", help="some of the suite's tests, as for pytest")
    options = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory(prefix="kafka-python-suite-") as scratch:
        folder = Path(scratch)
        with one_broker(options.judged, folder) as address:
            report = run_suite(address, folder, options.version, options.tests)
        outcomes = outcomes_of(report)
    options.output.write_text(json.dumps(outcomes, indent=1, sort_keys=True) + "\n")
    return 0 if outcomes else 1


if __name__ == "__main__":
    sys.exit(main())

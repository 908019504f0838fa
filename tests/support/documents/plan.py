"""How each page is run: what its reader has before, what runs until Ctrl-C, what is left out.

A page that has anything to run stands here; `tests/documents` fails for one that does not. What is
left out has its reason, and the test run prints the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

A_CLUSTER = "ottla up --brokers 3"
UP = {A_CLUSTER: "ottla cluster"}
_ITSELF = "runs the tests, this one among them"
_SET_UP = "sets up the environment that this test runs in"
_MINUTES = "takes minutes"
_ELSEWHERE = "is a test of its own: "


@dataclass(frozen=True)
class PagePlan:
    left_out: Mapping[str, str] = field(default_factory=dict)  # command -> why
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    # What runs until Ctrl-C, and the command that succeeds once it has done what the page says.
    stays: Mapping[str, str] = field(default_factory=lambda: UP)
    files: Mapping[str, str] = field(default_factory=dict)  # "yaml 1" -> the name to save it under
    then: Mapping[str, str] = field(default_factory=dict)  # "python 2" -> checks that follow it
    drawn: Mapping[str, str] = field(default_factory=dict)  # a drawn id -> how to get the real one
    copies: tuple[str, ...] = ()  # of the checkout, into the reader's folder
    fresh: tuple[str, ...] = ()  # folders outside it that a page writes to
    installs: bool = False  # in an empty environment, where it says pip
    needs_spark: bool = False
    run_by: str = ""  # a test of the page's own


CHECKOUT = (
    "src",
    "examples",
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    "Makefile",
)
CLICKS_RUN = "ottla pipeline run examples/clicks.yaml --bootstrap-server 127.0.0.1:9092"
PAGE_RUN = "ottla pipeline run clicks.yaml --bootstrap-server 127.0.0.1:9092"
# They need brokers with an authoriser.
_ACLS = (
    "ottla acls --add --allow-principal User:alice --producer --topic clicks --idempotent",
    "ottla acls --add --deny-principal User:eve --deny-host 10.1.1.1 --operation Write"
    " --topic click --resource-pattern-type prefixed",
    "ottla acls --list --topic clicks --resource-pattern-type match",
)
FOLLOW = "ottla consume clicks --follow --from-beginning"

PLANS: Mapping[str, PagePlan] = {
    "README.md": PagePlan(
        left_out={
            "make demo": _ELSEWHERE + "tests/spark/test_demo.py",
            "make test": _ITSELF,
        },
        stays={
            **UP,
            "ottla broker --config ottla-data/config/broker-2.properties": (
                'test -z "$(ottla topics --describe --under-replicated-partitions)"'
            ),
            CLICKS_RUN: 'test "$(ottla consume orders | wc -l)" = 38',
        },
        then={"python 2": "assert views.isStreaming and views.columns[0] == 'key'\n"},
        after=(
            'test "$(ottla consume hello)" = v',
            'test "$(ottla consume clicks.bad | sort -u)" = "this is no click"',
            "test -d examples/archive",
        ),
        copies=CHECKOUT,
        installs=True,
        needs_spark=True,
    ),
    "CONTRIBUTING.md": PagePlan(
        left_out={
            "make setup": _SET_UP,
            "make check": "lints the checkout; CI runs it",
            "make unit": _ITSELF,
            "make test": _ITSELF,
            "make campaign": "takes hours",
        }
    ),
    "docs/cli.md": PagePlan(
        stays={
            **UP,
            "ottla zookeeper --data other-store --port 2182": "ls other-store/*",
            "ottla zookeeper --data third-store --port 2183 --max-client-cnxns 200"
            " --4lw-commands-whitelist '*'": "ls third-store/*",
            FOLLOW: "true",
            "ottla zk watch /brokers -R --new": "true",
        },
        left_out={
            "ottla zookeeper --extended-types --super-digest-file super.digest": (
                _ELSEWHERE + "tests/unit/cli/test_zookeeper.py"
            ),
            **dict.fromkeys(_ACLS, _ELSEWHERE + "tests/peers/test_security_kafka_acls.py"),
        },
        drawn={
            "EU90pM3STQq4HeI_CKdueA": (
                "ottla topics --describe --topic clicks | grep -o 'TopicId: [^[:space:]]*'"
                " | cut -d' ' -f2"
            )
        },
        after=("test -s clicks.html", "test -s man/ottla-topics.1"),
        copies=("examples", "tools"),
        needs_spark=True,
    ),
    "docs/client-suites.md": PagePlan(
        left_out={
            "pytest tests/peers/test_kafka_python_suite.py tests/peers/test_franz_go_suite.py"
            " tests/peers/test_java_data_tools.py": _ITSELF,
            "OTTLA_JUDGED=kafka-2.8.2 pytest tests/peers/test_kafka_python_suite.py": _MINUTES,
            "python tests/peers/kafka_python_suite/run_kafka_python.py outcomes.json"
            " --judged kafka-4.1": _MINUTES,
        }
    ),
    "docs/clone.md": PagePlan(needs_spark=True),
    "docs/console.md": PagePlan(after=("test ! -e with-console/run/up.pid",)),
    "docs/creation.md": PagePlan(run_by="tests/integration/test_docs_creation.py"),
    "docs/kazoo-suite.md": PagePlan(
        left_out={
            "python tests/peers/kazoo_suite/run.py outcomes.json": (
                _ELSEWHERE + "tests/peers/test_kazoo_suite.py"
            ),
            "KAZOO_SUITE_JAVA=$(command -v java) python tests/peers/kazoo_suite/run.py"
            " outcomes.json": _MINUTES,
        }
    ),
    "docs/own-apis.md": PagePlan(before=(A_CLUSTER,)),
    "docs/trash.md": PagePlan(before=(A_CLUSTER,)),
    "docs/peers.md": PagePlan(
        left_out={
            "pytest tests/peers/test_topic_operations.py": _ITSELF,
            "OTTLA_JUDGED=kafka-2.8.2 pytest tests/peers": _MINUTES,
            "OTTLA_REQUIRE_PEERS=1 pytest tests/peers": _ITSELF,
            "ottla bench topics": _MINUTES,
            "OTTLA_BENCH_SCALE=0.1 ottla bench topics": _MINUTES,
        }
    ),
    "docs/pipelines.md": PagePlan(
        before=(A_CLUSTER,),
        stays={**UP, PAGE_RUN: 'test "$(ottla consume clicks | wc -l)" = 1 && test -d archive'},
        files={"yaml 1": "clicks.yaml"},
        then={"python 1": "assert report.job('archive-clicks').rows_out == 1, report\n"},
        copies=("examples",),
        fresh=("/tmp/ottla-orders",),
        installs=True,
        needs_spark=True,
    ),
    "docs/resize.md": PagePlan(
        before=(
            A_CLUSTER,
            "ottla topics --create --topic orders --partitions 12",
            "echo one | ottla produce orders",
        ),
        after=("ottla topics --describe --topic orders | grep 'PartitionCount: 5'",),
        needs_spark=True,
    ),
    "docs/security.md": PagePlan(
        left_out={
            "ottla acls --bootstrap-server 10.0.0.1:9092 --command-config admin.properties"
            " --add --allow-principal User:alice --operation Read --topic clicks"
            " --resource-pattern-type prefixed": (
                _ELSEWHERE + "tests/peers/test_security_kafka_acls.py"
            ),
        },
        stays={
            "ottla zookeeper --super-digest-file super.digest": "ls ottla-data/store/*",
            "ottla zookeeper --port 12184 --data secure-store --secure-client-port 12281"
            " --tls-properties store.properties": (
                "openssl s_client -connect localhost:12281 -CAfile ca.pem -cert broker.pem"
                " -key broker.pem -verify_return_error < /dev/null"
            ),
        },
    ),
    "docs/simulation.md": PagePlan(
        left_out={
            ".venv/bin/python -m ottla.simulation tests/simulation/chaos.toml": (
                _ELSEWHERE + "tests/simulation/test_scenarios.py"
            ),
            ".venv/bin/python -m ottla.simulation tests/simulation/chaos.toml --jobs 2"
            " --seeds 1000 --first 5000": _MINUTES,
        },
        files={"toml 1": "scenario.toml"},
        after=(".venv/bin/python -m ottla.simulation scenario.toml --seeds 1", "test -s trace.txt"),
        copies=("tests/simulation",),
    ),
    "docs/spark.md": PagePlan(
        before=(
            A_CLUSTER,
            "ottla topics --create --topic events --partitions 2",
            "ottla topics --create --topic loud-events --partitions 2",
            "echo quiet | ottla produce events",
            "ottla topics --create --topic views",
            """echo '{"user":"ann","at":"2024-01-02T03:04:05Z"}' | ottla produce views""",
        ),
        files={"python 2": "job.py"},
        then={
            "python 1": "query.processAllAvailable()\nquery.stop()\n",
            "python 3": "assert views.select('value.user').first()['user'] == 'ann'\n",
        },
        after=('test "$(ottla consume loud-events)" = QUIET',),
        needs_spark=True,
    ),
    "docs/testing.md": PagePlan(
        files={
            "python 1": "examples/testing/pages.py",
            "python 2": "examples/testing/test_pages.py",
        },
        copies=CHECKOUT,
        installs=True,
        needs_spark=True,
    ),
}


def left_out() -> list[str]:
    """One line for each command that no test runs as it stands."""
    return [
        f"{page}: {command}: {reason}"
        for page, plan in PLANS.items()
        for command, reason in plan.left_out.items()
    ]

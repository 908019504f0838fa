"""`subscribePattern` is Java's: the JVM that Spark runs on is asked what it matches."""

from __future__ import annotations

import pytest
from pyspark.errors import IllegalArgumentException

from tests.support.spark.java_patterns import MATCHED, NAMES, REFUSED
from tests.support.spark.topics import Topics

# Java knows these; they are refused here because they mean several things, or would be work.
TAKEN_BY_JAVA = {
    "(?x)a b",
    r"\X",
    r"(?i)\p{Lower}",
    "(?iu)é",
    "[]a]",
    "[a-z&&[b]c]",
    "[^a[b]]",
    r"\2(a)",
    "(?<=a|bb)c",
}


def test_java_matches_the_same_names(spark):
    matches = spark._jvm.java.util.regex.Pattern.matches
    for pattern, names in MATCHED.items():
        assert [name for name in NAMES if matches(pattern, name)] == names.split(), pattern


def test_java_refuses_what_is_no_pattern(spark):
    compiles = spark._jvm.java.util.regex.Pattern.compile
    for pattern in REFUSED:
        if pattern in TAKEN_BY_JAVA:
            compiles(pattern)
        elif len(pattern) < 1_000:  # deeper ones end in a StackOverflowError
            with pytest.raises(IllegalArgumentException):
                compiles(pattern)


def test_the_topics_of_a_pattern(spark, connector, ottla_processes):
    topics = Topics(ottla_processes.bootstrap_servers)
    for name in ("Clicks.eu", "clicks.us", "clicksXus", "clicks.42"):
        topics.create(name=f"dialect-{name}")
        topics.fill(f"dialect-{name}", [name.encode()])
    options = {
        "kafka.bootstrap.servers": topics.servers,
        "subscribePattern": r"dialect-(?i:\Qclicks.\E)[\p{Alnum}&&[^\d]]++",
        "startingOffsets": "earliest",
    }
    found = {
        kind: sorted(
            row.topic for row in spark.read.format(kind).options(**options).load().collect()
        )
        for kind in ("ottla", "kafka")
    }
    assert found["ottla"] == found["kafka"] == ["dialect-Clicks.eu", "dialect-clicks.us"]

"""Loops of jobs, through topics, clusters and folders."""

from __future__ import annotations

import pytest

from ottla.pipelines.checks import loops
from ottla.pipelines.spec_reader import parse_pipeline


def found(jobs, cluster_of=lambda servers: servers):
    pipeline = parse_pipeline("bootstrap_servers: here:1\njobs:\n" + jobs)
    return [(problem.job, problem.words) for problem in loops.find(pipeline, cluster_of)]


def test_a_chain_is_no_loop():
    assert not found(
        """
  - ingest: {format: text, path: /in, topic: a}
  - transform: {from: a, to: b, sql: s}
  - transform: {from: [a, b], to: c, sql: s}
  - archive: {from: [a, b, c], path: /in-archive}
  - restore: {path: /in-archive, topic: d}
"""
    )


def test_a_loop_is_told_once_with_its_way():
    assert found(
        """
  - transform: {name: first, from: a, to: b, sql: s}
  - transform: {name: second, from: [x, b], to: c, sql: s}
  - transform: {name: third, from: c, to: y, sql: s, schema: v int, dead_letter: a}
"""
    ) == [("first", "feeds itself (with second, third): a -> b -> c -> a")]


@pytest.mark.parametrize(
    ("job", "ids", "way"),
    [
        ("{from: a, to_bootstrap_servers: 'there:1'}", {}, None),
        ("{from: a, to_bootstrap_servers: 'here:1'}", {}, "a -> a"),
        ("{from: a, to_bootstrap_servers: 'here:1', prefix: copy.}", {}, None),
        ("{from: a, to_bootstrap_servers: 'alias:1'}", {"alias:1": "X", "here:1": "X"}, "a -> a"),
    ],
)
def test_a_mirror_to_its_own_cluster(job, ids, way):
    told = found(f"  - mirror: {job}\n", lambda servers: ids.get(servers, servers))
    assert told == ([] if way is None else [("mirror-a", f"feeds itself: {way}")])


def test_two_mirrors_that_send_each_other_everything():
    assert found(
        """
  - mirror: {name: there, from: a, to_bootstrap_servers: 'there:1'}
  - mirror: {name: back, from: a, bootstrap_servers: 'there:1', to_bootstrap_servers: 'here:1'}
"""
    ) == [("there", "feeds itself (with back): a -> a -> a")]


def test_files_that_are_archived_below_the_folder_they_came_from():
    (told,) = found(
        """
  - ingest: {format: parquet, path: /data, topic: a, schema: v int}
  - archive: {from: a, path: /data/archive}
"""
    )
    assert told == ("ingest-a", "feeds itself (with archive-a): /data -> a -> /data")

"""Files, folders, functions and ports that are not there, or not for us."""

from __future__ import annotations

import socket

import pytest

from ottla.pipelines.checks import places
from ottla.pipelines.spec_reader import parse_pipeline


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "_SUCCESS").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.csv").write_text("a\n1\n")
    (tmp_path / "steps.py").write_text("def one(frame): ...\n")
    return tmp_path


def words(folder, job, head=""):
    pipeline = parse_pipeline(f"{head}\njobs:\n  - {job}\n", "p.yaml", folder)
    return [problem.words.replace(f"{folder}/", "") for problem in places.find(pipeline)]


@pytest.mark.parametrize(
    "job",
    [
        "ingest: {format: text, path: in, topic: a}",
        "ingest: {format: json, path: in, topic: a, schema: v int}",
        "ingest: {format: csv, path: full, topic: a}",
        "ingest: {format: csv, path: 'nowhere/*.csv', topic: a}",
        "ingest: {format: csv, path: 'hdfs://host/x', topic: a}",
        "archive: {from: a, path: new/and/deep}",
        "archive: {from: a, path: 's3a://bucket/x'}",
        "profile: {from: a, json: full/figures.json}",
        "transform: {from: a, to: b, function: 'steps.py:one'}",
    ],
)
def test_nothing_is_wrong_and_nothing_is_made(folder, job):
    before = sorted(folder.rglob("*"))
    assert words(folder, job) == []
    made = [path for path in sorted(folder.rglob("*")) if path not in before]
    assert all("__pycache__" in str(path) for path in made)


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (
            "ingest: {format: text, path: nowhere, topic: a}",
            "path: there is no folder nowhere: make it, files may come later",
        ),
        (
            "ingest: {format: json, path: in, topic: a}",
            "'schema' is missing, and there are no files in in that would tell it",
        ),
        ("archive: {from: a, path: full/a.csv/x}", "path: full/a.csv is not a folder"),
        ("restore: {path: nowhere, topic: a}", "path: there is no folder nowhere"),
        ("restore: {path: full, topic: a}", "path: there is no Parquet file in full"),
        ("profile: {from: a, json: nowhere/x}", "json: there is no folder nowhere"),
        ("profile: {from: a, html: full}", "html: full is a folder, a file is to be written"),
        ("audit: {json: nowhere/x}", "json: there is no folder nowhere"),
        (
            "transform: {from: a, to: b, function: 'gone.py:one'}",
            "function: there is no file gone.py",
        ),
        (
            "transform: {from: [a, c], to: b, function: 'steps.py:one'}",
            "function: steps.py:one is called with 2 DataFrames, one for each topic, and takes "
            "(frame)",
        ),
        (
            "mirror: {from: a, to_bootstrap_servers: 'h:1', format: kafka}",
            "mirror needs format: ottla; the other one writes no timestamps",
        ),
    ],
)
def test_what_is_wrong_is_told(folder, job, told):
    assert words(folder, job) == [told]


def test_the_pipeline_itself(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        head = f"checkpoints: full/a.csv\nmetrics_port: {port}"
        assert words(folder, "ingest: {format: rate, topic: a}", head) == [
            "checkpoints: full/a.csv is not a folder",
            f"metrics: 127.0.0.1:{port} cannot be used: Address already in use",
        ]
    head = "metrics_port: 70000"
    (told,) = words(folder, "ingest: {format: rate, topic: a}", head)
    assert told.startswith("metrics: 127.0.0.1:70000 cannot be used: ")

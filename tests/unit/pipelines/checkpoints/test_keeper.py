"""Checkpoints on this machine: jobs put in another order, renamed, removed, copied, damaged."""

from __future__ import annotations

import json
import shutil
import uuid

import pytest

from ottla.pipelines import SpecError
from ottla.pipelines.checkpoints.judge import Choices
from ottla.pipelines.checkpoints.keeper import Keeper
from ottla.pipelines.checkpoints.marks import MARK_NAME
from ottla.pipelines.spec_reader import parse_pipeline


@pytest.fixture
def keeper(tmp_path):
    def make(*jobs, reset=(), adopt=()):
        text = "jobs:\n" + "".join(f"  - {job}\n" for job in jobs)
        pipeline = parse_pipeline(text, folder=tmp_path)
        choices = Choices(frozenset(reset), frozenset(adopt))
        return Keeper(pipeline, None, {"localhost:9092": "id"}, choices)

    return make


@pytest.fixture
def ran(keeper, tmp_path):
    """A run of these jobs, as far as checkpoints go: taken, then Spark was there."""

    def run(*jobs, **choices):
        kept = keeper(*jobs, **choices)
        assert kept.wrong() == []
        said = kept.take()
        for folder in (tmp_path / "checkpoints").iterdir():
            if not folder.name.startswith((".", "_")) and not (folder / "metadata").exists():
                (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        return said

    return run


def archive(name, path, topic="t"):
    return f"archive: {{name: {name}, from: {topic}, path: {path}}}"


def identity(tmp_path, name):
    return json.loads((tmp_path / "checkpoints" / name / "metadata").read_text())["id"]


def test_jobs_may_come_and_go_and_change_places(ran, tmp_path):
    ran(archive("a", "x"), archive("b", "y"))
    before = identity(tmp_path, "a"), identity(tmp_path, "b")
    ran(archive("b", "y"))
    ran(archive("c", "z"), archive("b", "y"), archive("a", "x"))
    assert before == (identity(tmp_path, "a"), identity(tmp_path, "b"))


def test_two_jobs_that_changed_names_are_refused(ran, keeper, tmp_path):
    ran(archive("a", "x"), archive("b", "y"))
    wrong = keeper(archive("b", "x"), archive("a", "y")).wrong()
    assert [job for job, _ in wrong] == ["b", "a"]
    assert wrong[0].words == (
        f"its checkpoint is that of another job: path was '{tmp_path}/y' and is '{tmp_path}/x'. "
        "--adopt b goes on from where the checkpoint is, as the job is now; "
        "--reset b begins anew, and what was written before stays"
    )
    with pytest.raises(SpecError, match=r"^job b: its checkpoint is that of another job"):
        keeper(archive("b", "x"), archive("a", "y")).take()


def test_a_changed_job_goes_on_or_begins_anew_as_is_said_and_is_known_from_then_on(
    ran, keeper, tmp_path
):
    ran(archive("a", "x"), archive("b", "y"))
    first = identity(tmp_path, "a")
    changed = archive("a", "x", "[t, u]"), archive("b", "z")
    assert len(keeper(*changed).wrong()) == 2
    assert [job for job, _ in keeper(*changed, adopt=["a"]).wrong()] == ["b"]
    said = ran(*changed, adopt=["a"], reset=["b"])
    assert said[0] == "a: goes on from where the checkpoint is, as the job is now"
    assert said[1].startswith(f"b: begins anew, its checkpoint was moved to {tmp_path}")
    assert (tmp_path / "checkpoints" / "_reset" / "b-1" / "metadata").exists()
    assert identity(tmp_path, "a") == first
    assert ran(*changed) == []
    ran(*changed, reset=["b"])
    assert (tmp_path / "checkpoints" / "_reset" / "b-2" / "metadata").exists()


def test_a_renamed_job_is_found(ran, keeper, tmp_path):
    ran(archive("a", "x"), archive("b", "y"))
    first = identity(tmp_path, "a")
    renamed = archive("c", "x"), archive("b", "y")
    ((job, words),) = keeper(*renamed).wrong()
    assert job == "c" and "reads and writes the same, a," in words
    assert ran(*renamed, adopt=["c"]) == ["c: goes on with the checkpoint of a"]
    assert identity(tmp_path, "c") == first and not (tmp_path / "checkpoints" / "a").exists()
    assert ran(*renamed) == []


def test_a_copy_is_refused_while_the_original_is_there(ran, keeper, tmp_path):
    ran(archive("a", "x"))
    folder = tmp_path / "checkpoints"
    shutil.copytree(folder / "a", folder / "b")
    ((job, words),) = keeper(archive("b", "y"), adopt=["b"]).wrong()
    assert (job, words.split(":")[0]) == (
        "b",
        f"its checkpoint is a copy of {folder}/a, which is still there",
    )
    shutil.rmtree(folder / "a")
    ((_, words),) = keeper(archive("b", "y")).wrong()
    assert "name was 'a' and is 'b'; path was" in words and f"was at {folder}/a" in words
    ran(archive("b", "y"), adopt=["b"])
    assert ran(archive("b", "y")) == []


def test_a_damaged_mark_is_refused(ran, keeper, tmp_path):
    ran(archive("a", "x"))
    mark = tmp_path / "checkpoints" / "a" / MARK_NAME
    mark.write_bytes(b"\xff\x00")
    ((_, words),) = keeper(archive("a", "x")).wrong()
    assert words.startswith("the mark of its checkpoint cannot be read. --adopt a goes on")
    ran(archive("a", "x"), adopt=["a"])
    assert ran(archive("a", "x")) == []


def test_a_checkpoint_of_an_earlier_version_is_marked(ran, keeper, tmp_path):
    ran(archive("a", "x"))
    (tmp_path / "checkpoints" / "a" / MARK_NAME).unlink()
    assert ran(archive("a", "x")) == []
    assert len(keeper(archive("a", "y")).wrong()) == 1


def test_a_second_run_is_kept_out(keeper):
    first, second = keeper(archive("a", "x")), keeper(archive("b", "y"), archive("a", "x"))
    first.lock()
    with pytest.raises(SpecError, match=r"^job a: process \d+ runs it already, with the checkpoin"):
        second.lock()
    first.release()
    second.lock()
    second.release()


def test_choices_about_jobs_that_are_not_there(keeper):
    kept = keeper(archive("orders", "x"), "profile: {from: t}", reset=["ordres"], adopt=["q"])
    assert [words for _, words in kept.wrong()] == [
        "--reset ordres: no job with a checkpoint is called so, did you mean 'orders'?",
        "--adopt q: no job with a checkpoint is called so; there are orders",
    ]
    both = keeper(archive("a", "x"), reset=["a"], adopt=["a"])
    assert [words for _, words in both.wrong()] == ["--reset and --adopt a: one of the two"]

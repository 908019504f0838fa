"""What a clone makes of what is there already, and when it hears that it is to stop; whole clones
are in `tests/spark`."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines.copy import clone as clones
from ottla.pipelines.copy import tasks
from ottla.pipelines.copy.clone import Clone, CloneSpec, final_configs, plan
from ottla.pipelines.copy.clone_topics import MEANWHILE, TopicFacts
from ottla.pipelines.copy.copier import Check, Progress
from ottla.pipelines.copy.ends import CopyError, Endpoint
from ottla.pipelines.copy.folder import CopyFolder
from ottla.pipelines.copy.state import Bounds, CopyState, FinalConfigs, Identity
from ottla.runtime import SystemDisk
from ottla.topics.partitioners import Partitioner

WAIT_S = 30


def facts(topic_id: str, partitions: int = 4, *, records: bool = False, **configs: str) -> Any:
    own = {name.replace("_", "."): value for name, value in configs.items()}
    return TopicFacts(topic_id, partitions, 1, own, frozenset(own), records)


SOURCE = facts("src", retention_ms="5000", cleanup_policy="compact")
SPEC = CloneSpec(Endpoint("localhost:1", "a"), Endpoint("localhost:1", "b"))


# --- configs ------------------------------------------------------------------------------------


def test_a_topic_that_is_made_gets_the_configs_of_the_source() -> None:
    assert final_configs(SOURCE, None, None) == (SOURCE.configs, "", True)


def test_a_topic_that_was_there_keeps_its_own() -> None:
    there = facts("new", segment_ms="1")
    assert final_configs(SOURCE, there, None) == (there.configs, "new", False)
    others = FinalConfigs({"segment.ms": "9"}, "another id", is_made=True)
    assert final_configs(SOURCE, there, others) == (there.configs, "new", False)


def test_a_topic_that_an_earlier_run_made_gets_the_configs_of_the_source() -> None:
    """Whether that run came to its configs for the time of the copy or not."""
    about_to = FinalConfigs(SOURCE.configs, is_made=True)
    assert final_configs(SOURCE, facts("new"), about_to) == (SOURCE.configs, "new", True)
    made = FinalConfigs(SOURCE.configs, "new", is_made=True)
    held = facts("new")._replace(configs=dict(MEANWHILE))
    assert final_configs(SOURCE, held, made) == (SOURCE.configs, "new", True)
    of_another = facts("other", max_message_bytes="7")
    assert final_configs(of_another, held, made).values == of_another.configs


def test_a_topic_that_somebody_else_made_meanwhile_keeps_its_own() -> None:
    about_to = FinalConfigs(SOURCE.configs, is_made=True)
    theirs = facts("new", segment_ms="1")
    assert final_configs(SOURCE, theirs, about_to) == (theirs.configs, "new", False)


def test_a_topic_that_was_there_gets_back_what_an_earlier_run_took_away() -> None:
    noted = FinalConfigs({"segment.ms": "1"}, "new")
    held = facts("new")._replace(configs={"segment.ms": "1", **MEANWHILE})
    assert final_configs(SOURCE, held, noted) == noted


# --- the plan -----------------------------------------------------------------------------------


class AskedTopic:
    """The source: record n of each partition has time n."""

    ends = 100

    def __init__(self, partitions: int) -> None:
        self.partitions = range(partitions)

    def look(self) -> None:
        pass

    def close(self) -> None:
        pass

    def earliest(self) -> dict[int, int]:
        return dict.fromkeys(self.partitions, 0)

    def latest(self) -> dict[int, int]:
        return dict.fromkeys(self.partitions, self.ends)

    def at_time(self, time_ms: int) -> dict[int, int]:
        return dict.fromkeys(self.partitions, time_ms)


@pytest.fixture
def folder(tmp_path: Path) -> CopyFolder:
    return CopyFolder(SystemDisk(), tmp_path)


def planned(
    monkeypatch: pytest.MonkeyPatch,
    folder: CopyFolder,
    source: TopicFacts,
    target: TopicFacts | None,
    spec: CloneSpec = SPEC,
) -> clones.ClonePlan:
    there = {"a": source, "b": target}
    guessed: list[Partitioner] = []
    monkeypatch.setattr(clones, "_with", lambda end, work: there[end.topic])
    monkeypatch.setattr(clones, "Topic", lambda *_: AskedTopic(source.partitions))
    monkeypatch.setattr(clones, "_check_guess", lambda _, one: guessed.append(one))
    made = plan(spec, folder)
    assert not (made.resumes and guessed), "that was settled when it was begun"
    return made


def begun(
    folder: CopyFolder, partitions: int, partitioner: str = "", bounds: Bounds | None = None
) -> None:
    """Into a target `b` of so many partitions."""
    times = ("2h", "1h") if bounds is not None else ("", "")
    identity = Identity("c", "a", "src", "c", "b", "new", partitions, partitioner, *times)
    zero = dict.fromkeys(range(4), 0)
    folder.write_state(CopyState(identity, zero, {}, zero, bounds=bounds or Bounds()))


def test_a_source_that_has_grown_needs_another_clone(
    monkeypatch: pytest.MonkeyPatch, folder: CopyFolder
) -> None:
    """Records stay in their partitions; those of a new one would go elsewhere."""
    begun(folder, 4)
    target = facts("new", records=True)
    assert planned(monkeypatch, folder, SOURCE, target).resumes
    grown = SOURCE._replace(partitions=6)
    for spec in (SPEC, replace(SPEC, partitions=4), replace(SPEC, partitions=6)):
        with pytest.raises(
            CopyError, match="a has 6 partitions now, and b was begun with 4: clone"
        ):
            planned(monkeypatch, folder, grown, target, spec)


def test_another_shape_than_that_which_was_begun_is_refused(
    monkeypatch: pytest.MonkeyPatch, folder: CopyFolder
) -> None:
    begun(folder, 3, "murmur2")
    target = facts("new", 3, records=True)
    for spec in (SPEC, replace(SPEC, partitions=5)):
        with pytest.raises(CopyError, match=r"with 3 partitions, not .: .* say --partitions 3"):
            planned(monkeypatch, folder, SOURCE, target, spec)
    assert planned(monkeypatch, folder, SOURCE, target, replace(SPEC, partitions=3)).resumes


@pytest.mark.parametrize("grown", [4, 6, 7])
def test_where_keys_go_by_their_hashes_a_source_may_grow(
    monkeypatch: pytest.MonkeyPatch, folder: CopyFolder, grown: int
) -> None:
    """Also to as many partitions as the target has."""
    begun(folder, 6, "murmur2")
    target = facts("new", 6, records=True)
    spec = replace(SPEC, partitions=6)
    made = planned(monkeypatch, folder, SOURCE._replace(partitions=grown), target, spec)
    assert made.resumes and made.partitioner is Partitioner.MURMUR2


def test_bounds_are_those_with_which_it_was_begun(
    monkeypatch: pytest.MonkeyPatch, folder: CopyFolder
) -> None:
    """Two hours ago is another time in every run; new partitions begin there too."""
    begun(folder, 3, "murmur2", Bounds(20, 70))
    spec = replace(SPEC, partitions=3, from_ms=21, to_ms=71, starting="2h", ending="1h")
    grown = SOURCE._replace(partitions=5)
    made = planned(monkeypatch, folder, grown, facts("new", 3, records=True), spec)
    assert made.resumes
    assert made.begin == dict.fromkeys(range(5), 20) and made.until == dict.fromkeys(range(5), 70)
    anew = planned(monkeypatch, folder, grown, None, spec)
    assert not anew.resumes
    assert anew.begin == dict.fromkeys(range(5), 21) and anew.until == dict.fromkeys(range(5), 71)


@pytest.mark.parametrize("is_sound", [True, False])
def test_one_that_died_when_all_was_done_is_told_so(
    monkeypatch: pytest.MonkeyPatch, folder: CopyFolder, is_sound: bool
) -> None:
    clone = copied_clone(monkeypatch, folder, None, [])
    pairs = [] if is_sound else [(0, 0)]
    monkeypatch.setattr(Copied, "check", lambda *_: Check(1_200, pairs, 0))
    clone.run()
    told = "the clone b of a is finished, with 1,200 records" if is_sound else "knows of no clone"
    with pytest.raises(CopyError, match=told):
        planned(monkeypatch, folder, SOURCE, facts("new", records=True))
    # Another topic of that name, and this one when its records are gone.
    with pytest.raises(CopyError, match="knows of no clone"):
        planned(monkeypatch, folder, SOURCE, facts("newer", records=True))
    assert not planned(monkeypatch, folder, SOURCE, facts("new")).resumes


# --- the end ------------------------------------------------------------------------------------


class Spark:
    """A job that lasts until it is interrupted."""

    def __init__(self) -> None:
        self.running, self.interrupted = threading.Event(), threading.Event()

    def interruptAll(self) -> None:
        self.interrupted.set()

    def job(self) -> Check:
        self.running.set()
        assert self.interrupted.wait(WAIT_S)
        raise RuntimeError("cancelled")


class Copied:
    """In place of a `Copier`: all records are copied."""

    def __init__(self, spark: Any, steps: list[str]) -> None:
        self._spark, self._steps = spark, steps
        self.state = CopyState(Identity("", "a", "", "", "b", "new", 4, "", "", ""), {}, {}, {})
        self.state.tally.records = 1_200

    def start(self, until: Any) -> None:
        pass

    def wait(self, timeout_s: float) -> bool:
        return True

    def finish(self) -> CopyState:
        return self.state

    def progress(self) -> Progress:
        return Progress(1_200, 0.0, 0, 1)

    def check(self, watch: Any) -> Check:
        self._steps.append("check")
        if self._spark is None:
            return Check(1_200, [], 0)
        return tasks.run_watched(self._spark, self._spark.job, watch)

    def pause(self) -> None:
        pass

    def close(self) -> None:
        self._steps.append("close")


def copied_clone(
    monkeypatch: pytest.MonkeyPatch, folder: CopyFolder, spark: Any, steps: list[str]
) -> Any:
    """What it does from then on is noted."""
    made = planned(monkeypatch, folder, SOURCE, None)
    clone: Any = Clone(spark, replace(SPEC, with_groups=True), made, folder)
    monkeypatch.setattr(clones, "Copier", lambda *_, **__: Copied(spark, steps))
    monkeypatch.setattr(clone, "_prepare", frozenset)
    monkeypatch.setattr(clone, "_carry", lambda _: steps.append("groups"))
    monkeypatch.setattr(clone, "_give_configs", lambda _: steps.append("configs") or [])
    return clone


STOPPED = "stopped after 1,200 records: the same command goes on"


def test_a_check_ends_when_the_clone_is_stopped(
    monkeypatch: pytest.MonkeyPatch, folder: CopyFolder
) -> None:
    spark, steps = Spark(), list[str]()
    clone = copied_clone(monkeypatch, folder, spark, steps)
    stopper = threading.Thread(target=lambda: spark.running.wait(WAIT_S) and clone.stop())
    stopper.start()
    with pytest.raises(CopyError, match=STOPPED):
        clone.run()
    stopper.join()
    assert spark.interrupted.is_set() and steps == ["check", "close"]


@pytest.mark.parametrize(
    ("during", "done"),
    [
        ("check", ["check", "close"]),
        ("groups", ["check", "groups", "close"]),
        ("configs", ["check", "groups", "configs", "close"]),
    ],
)
def test_it_stops_before_the_next_step(
    monkeypatch: pytest.MonkeyPatch, folder: CopyFolder, during: str, done: list[str]
) -> None:
    """When all is done there is nothing left to stop."""

    class Steps(list[str]):
        def append(self, step: str) -> None:
            super().append(step)
            if step == during:
                clone.stop()

    steps = Steps()
    clone = copied_clone(monkeypatch, folder, None, steps)
    if during == "configs":
        clone.run()
    else:
        with pytest.raises(CopyError, match=STOPPED):
            clone.run()
    assert steps == done

"""The checkpoints of a pipeline's jobs: looked at, locked, set aside, moved and marked."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.config.definitions import nearest_name
from ottla.pipelines.checkpoints import marks
from ottla.pipelines.checkpoints.fingerprint import differences, fingerprint
from ottla.pipelines.checkpoints.judge import Choices, Lying, Step, Verdict, decide
from ottla.pipelines.checkpoints.marks import MARK_NAME, Damaged, Mark
from ottla.pipelines.files import FileStore, file_store, local_path
from ottla.pipelines.spec import Pipeline, StreamJob
from ottla.pipelines.spec_keys import SpecError
from ottla.runtime import DirInUse, HeldLock, SystemDisk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_CHOICES = Choices()
_SET_ASIDE = "_reset"
_LOCKS = ".locks"
# More folders than this are not looked into for one that was renamed.
_MAX_RELATIVES = 1000


class Wrong(NamedTuple):
    """A job that cannot start, and why."""

    job: str
    words: str


class Keeper:
    """Knows whose the checkpoints are. Without a session only those on this machine are seen."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession | None,
        ids: Mapping[str, str],
        choices: Choices = NO_CHOICES,
    ) -> None:
        """`ids` are those of the clusters, by their brokers."""
        self._pipeline = pipeline
        self._ids = ids
        self._choices = choices
        self._is_seen = spark is not None or local_path(pipeline.checkpoints) is not None
        self._files: FileStore | None = None
        self._spark = spark
        self._locks: list[HeldLock] = []

    @property
    def files(self) -> FileStore:
        if self._files is None:
            self._files = file_store(self._spark, self._pipeline.checkpoints)
        return self._files

    def _streams(self) -> Iterator[tuple[StreamJob, str]]:
        for job in self._pipeline.jobs:
            if isinstance(job, StreamJob):
                for stream in job.stream_names():
                    yield job, stream

    def lock(self) -> None:
        """Keeps a second run out, on this machine; raises SpecError where one is there."""
        folder = local_path(self._pipeline.checkpoints)
        if folder is None:
            return
        for job, stream in self._streams():
            place = folder / _LOCKS / stream
            place.mkdir(parents=True, exist_ok=True)
            try:
                self._locks.append(SystemDisk().lock(place))
            except DirInUse as error:
                self.release()
                who = f"process {error.holder}" if error.holder else "another process"
                raise SpecError(
                    f"job {job.name}: {who} runs it already, with the checkpoint {folder / stream}"
                ) from None

    def release(self) -> None:
        for lock in self._locks:
            lock.release()
        self._locks.clear()

    def wrong(self) -> list[Wrong]:
        """Jobs whose checkpoints are not theirs, and choices about jobs that are not there."""
        found = [Wrong("", words) for words in self._misnamed()]
        if not self._is_seen:
            return found
        for job, stream in self._streams():
            verdict, _ = self._judged(job, stream)
            if verdict.step is None:
                found.append(Wrong(job.name, verdict.words))
        return found

    def _misnamed(self) -> Iterator[str]:
        names = [job.name for job in self._pipeline.jobs if isinstance(job, StreamJob)]
        for option, chosen in self._choices._asdict().items():
            for name in sorted(chosen):
                if name not in names:
                    near = nearest_name(name, names)
                    hint = (
                        f", did you mean {near!r}?" if near else f"; there are {', '.join(names)}"
                    )
                    yield f"--{option} {name}: no job with a checkpoint is called so{hint}"
        for name in sorted(self._choices.reset & self._choices.adopt):
            yield f"--reset and --adopt {name}: one of the two"

    def source_of(self, job: StreamJob) -> str | None:
        """The folder with the checkpoint that the job will go on with; None where it begins."""
        verdict, _ = self._judged(job, job.name)
        if verdict.step is Step.MOVE_HERE:
            return self._folder(verdict.source)
        return self._folder(job.name) if verdict.step in (Step.GO_ON, Step.TAKE_ON) else None

    def take(self) -> list[str]:
        """Does what was decided and marks every checkpoint, before a batch begins; gives lines
        about what people may want to know. Raises SpecError where `wrong` would tell something."""
        said: list[str] = []
        for job, stream in self._streams():
            verdict, mark = self._judged(job, stream)
            if verdict.step is None:
                raise SpecError(f"job {job.name}: {verdict.words}")
            said += self._do(job, stream, verdict)
            if verdict.step is not Step.GO_ON:
                self.files.write_text(f"{self._folder(stream)}/{MARK_NAME}", marks.encode(mark))
        return said

    def _do(self, job: StreamJob, stream: str, verdict: Verdict) -> Iterator[str]:
        folder = self._folder(stream)
        if verdict.step is Step.SET_ASIDE:
            aside = self._free_place(f"{self.files.root}/{_SET_ASIDE}/{stream}")
            self.files.move(folder, aside)
            yield (
                f"{stream}: begins anew, its checkpoint was moved to {aside}; "
                "what it has written stays and may be written again"
            )
        elif verdict.step is Step.MOVE_HERE:
            self.files.remove(folder)
            self.files.move(f"{self.files.root}/{verdict.source}", folder)
            yield f"{stream}: goes on with the checkpoint of {verdict.source}"
        elif verdict.step is Step.TAKE_ON and job.name in self._choices.adopt:
            yield f"{stream}: goes on from where the checkpoint is, as the job is now"

    def _free_place(self, path: str) -> str:
        number = 1
        while self.files.exists(f"{path}-{number}"):
            number += 1
        return f"{path}-{number}"

    def _folder(self, stream: str) -> str:
        return f"{self.files.root}/{stream}"

    def _judged(self, job: StreamJob, stream: str) -> tuple[Verdict, Mark]:
        lying = self._look(self._folder(stream))
        salt = lying.mark.salt if lying.mark is not None else secrets.token_hex(8)
        wanted = self._mark(job, stream, salt)
        if not lying.is_begun:
            lying = lying._replace(relatives=self._relatives(job, stream))
        return decide(job.name, lying, wanted, self._choices), wanted

    def _mark(self, job: StreamJob, stream: str, salt: str) -> Mark:
        told = fingerprint(self._pipeline, job, stream, self._ids, salt)
        return Mark(stream, self._folder(stream), told, salt)

    def _look(self, folder: str) -> Lying:
        is_begun = self.files.exists(f"{folder}/metadata")
        try:
            mark = self._read_mark(folder)
        except Damaged as damage:
            return Lying(is_begun, damage=str(damage))
        is_copy = (
            mark is not None
            and is_begun
            and mark.place != folder
            and query_id(self.files, mark.place) == query_id(self.files, folder)
        )
        return Lying(is_begun, mark, is_copy=is_copy)

    def _read_mark(self, folder: str) -> Mark | None:
        path = f"{folder}/{MARK_NAME}"
        if not self.files.exists(path):
            return None
        try:
            return marks.decode(self.files.read_text(path))
        except (OSError, ValueError):
            raise Damaged("cannot be read") from None

    def _relatives(self, job: StreamJob, stream: str) -> list[str]:
        taken = {name for _, name in self._streams()}
        found = []
        for name in self.files.folders(self.files.root)[:_MAX_RELATIVES]:
            if name in taken or not self.files.exists(f"{self._folder(name)}/metadata"):
                continue
            try:
                mark = self._read_mark(self._folder(name))
            except Damaged:
                continue
            if mark is not None and not differences(
                mark.job, self._mark(job, stream, mark.salt).job
            ):
                found.append(name)
        return found


def query_id(files: FileStore, checkpoint: str) -> str | None:
    """The id that Spark gave the query of a checkpoint; None where there is none."""
    path = f"{checkpoint}/metadata"
    try:
        if not files.exists(path):
            return None
        return str(json.loads(files.read_text(path))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def last_number(files: FileStore, folder: str) -> int:
    """The highest batch in one of Spark's logs of a checkpoint, -1 for none."""
    numbers = [int(f.name) for f in files.walk(folder) if f.name.isdecimal()]
    return max(numbers, default=-1)

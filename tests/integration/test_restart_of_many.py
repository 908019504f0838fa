"""One broker process with hundreds of partitions, stopped and started in order."""

from __future__ import annotations

from pathlib import Path

from ottla.bench.topic_sides import Work
from ottla.storage.checkpoints import CLEAN_SHUTDOWN
from ottla.storage.log.small_logs import NOTES
from ottla.testing.cluster import ProcessCluster

TOPICS = [f"many-{number}" for number in range(50)]
PARTITIONS = 4


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of every partition."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("many-*-*/*")}


def test_hundreds_of_partitions_go_on_after_a_restart(tmp_path: Path) -> None:
    cluster = ProcessCluster(brokers=1, data=tmp_path)
    folder = cluster.log_dir(0)
    with cluster:
        with Work(cluster.bootstrap_servers) as work:
            work.create(TOPICS, PARTITIONS)
        cluster.stop()
        assert (folder / CLEAN_SHUTDOWN).exists() and (folder / NOTES).exists()
        before = contents(folder)
        assert len(before) == len(TOPICS) * PARTITIONS, "a log each and nothing else"
        cluster.start()
        assert not (folder / CLEAN_SHUTDOWN).exists() and not (folder / NOTES).exists()
        assert contents(folder) == before, "a start after a clean stop writes nothing"
        with Work(cluster.bootstrap_servers) as work:
            work.await_ready(TOPICS, PARTITIONS)
        cluster.stop()
        assert (folder / CLEAN_SHUTDOWN).exists()
    after = contents(folder)
    assert after.keys() == before.keys()
    for name, data in after.items():
        assert data.startswith(before[name])
        base_offset = int.from_bytes(data[len(before[name]) :][:8], "big")
        assert base_offset == 1, "the second record follows the first"

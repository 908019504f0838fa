"""A driver that copies a topic, to be killed: `python copy_driver.py SERVERS SOURCE TARGET FOLDER`.

It copies what the source holds when it starts, in small micro-batches, says `copied` and ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.pipelines.copy.copier import Copier, CopyJob
from ottla.pipelines.copy.ends import Endpoint
from ottla.pipelines.copy.folder import CopyFolder
from ottla.runtime import SystemDisk
from ottla.spark.launch.session import session, stop_session
from ottla.topics.partitioners import Partitioner

FIRST_BATCH = 2_000


def main(servers: str, source: str, target: str, folder: str) -> None:
    spark = session("copy-driver", master="local[2]", conf={"spark.ui.enabled": "false"})
    job = CopyJob(Endpoint(servers, source), Endpoint(servers, target), Partitioner.MURMUR2)
    copier = Copier(spark, job, CopyFolder(SystemDisk(), Path(folder)), first_batch=FIRST_BATCH)
    copier.start()
    print("copying", flush=True)
    copier.finish(copier.source_ends())
    found = copier.check()
    print("copied" if found.is_sound else f"not sound: {found}", flush=True)
    copier.close()
    stop_session(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])

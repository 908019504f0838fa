from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ottla.pipelines import load_pipeline
from ottla.pipelines.announcement import Announcer, announced, document, spark_ui
from ottla.pipelines.progress import StreamProgress
from ottla.pipelines.spec import Pipeline

EXAMPLE = Path(__file__).parents[3] / "examples" / "clicks.yaml"


def stream(job: Any, name: str, **more: Any) -> Any:
    told = {"state": "running", "restarts": 0, "error": None, "rows_per_s": 2.0}
    return SimpleNamespace(job=job, name=name, progress=StreamProgress(), **(told | more))


def example() -> Pipeline:
    return load_pipeline(EXAMPLE).named()


def test_graph_figures_and_the_worst_state_of_a_job() -> None:
    pipeline = example()
    transform = pipeline.jobs[1]
    good, dead = (
        stream(transform, "t"),
        stream(transform, "t-dead-letter", state="failed", error="x"),
    )
    dead.progress.rows_out = 7
    told = document(pipeline, [good, dead], started_ms=1, now_ms=2)
    ingest, job, archive = told["jobs"]
    assert ingest["reads"] == [] and ingest["outside"] == "in" and ingest["state"] == "waiting"
    assert (job["reads"], job["writes"], job["dead_letter"]) == (
        ["clicks"],
        ["orders"],
        "clicks.bad",
    )
    assert (job["state"], job["dead_letters"], job["error"]) == ("failed", 7, "x")
    assert archive["writes"] == [] and archive["outside"] == "archive"


def test_the_file_is_private_kept_up_to_date_and_gone_at_the_end(tmp_path: Path) -> None:
    streams: list[Any] = []
    pipeline = example()
    seen = threading.Event()

    class Watched(Announcer):
        def __call__(self) -> bytes:
            if self._streams:
                seen.set()
            return super().__call__()

    announcer = Watched(pipeline, streams, [], None)
    with announced(announcer, {"XDG_STATE_HOME": str(tmp_path)}, every_s=0.01) as path:
        assert path == tmp_path / "ottla" / "pipelines" / f"{os.getpid()}.json"
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o077 == 0
        assert json.loads(path.read_text())["name"] == "clicks"
        streams.append(stream(pipeline.jobs[0], "ingest-clicks"))
        assert seen.wait(30)
    assert list(path.parent.iterdir()) == []


def test_no_folder_is_no_reason_to_stop(tmp_path: Path) -> None:
    announcer = Announcer(example(), [], [], None)
    with announced(announcer, {}) as path:
        assert path is None
    (tmp_path / "ottla").write_text("in the way")
    with announced(announcer, {"XDG_STATE_HOME": str(tmp_path)}) as path:
        assert path is None


def test_sparks_own_pages() -> None:
    context = SimpleNamespace(uiWebUrl="http://127.0.0.1:4040")
    assert spark_ui(SimpleNamespace(sparkContext=context)) == "http://127.0.0.1:4040"
    assert spark_ui(object()) is None

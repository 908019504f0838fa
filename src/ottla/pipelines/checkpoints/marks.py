"""The file in a checkpoint's folder that tells whose it is."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ottla.pipelines.checkpoints.fingerprint import Fingerprint

MARK_NAME = "ottla-job.json"
_VERSION = 1


class Damaged(Exception):
    """A mark that cannot be read; the words say why."""


class Mark(NamedTuple):
    """`place` is where the checkpoint was when it was marked: a copy lies elsewhere."""

    stream: str
    place: str
    job: Fingerprint
    salt: str


def encode(mark: Mark) -> str:
    return json.dumps({"version": _VERSION, **mark._asdict()}, indent=2) + "\n"


def decode(text: str) -> Mark:
    """Raises Damaged."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise Damaged("is not JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("version"), int):
        raise Damaged("is not a mark of a job")
    if found["version"] > _VERSION:
        raise Damaged("was written by a later version of Ottla")
    job, texts = found.get("job"), [found.get(name) for name in ("stream", "place", "salt")]
    if not all(isinstance(text, str) for text in texts) or not isinstance(job, dict):
        raise Damaged("lacks what tells a job from others")
    if not all(isinstance(name, str) and isinstance(text, str) for name, text in job.items()):
        raise Damaged("lacks what tells a job from others")
    return Mark(found["stream"], found["place"], job, found["salt"])

"""Fetches the peers' jars with Maven into the cache, one set per pom beside this file.

    python tools/peers/fetch.py            every set
    python tools/peers/fetch.py spark-kafka

Maven runs with the machine's own settings. A set that is already there is reused until its pom
changes. Without Maven this says so and ends well: the tests that need the jars are skipped.
`OTTLA_REQUIRE_PEERS=1` makes a missing set a failure; CI sets it.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.testing.peers import STAMP, peer_folder, peers_required

HERE = Path(__file__).parent
LOG_SETTINGS = HERE / "log4j.properties"
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
ATTEMPTS = 3
MAVEN_TIMEOUT_S = 600
NO_MAVEN = "skipped: mvn not found"


class FetchFailed(Exception):
    """Maven could not bring a set; the message is one line."""


def known_sets() -> list[str]:
    return sorted(pom.stem for pom in HERE.glob("*.xml"))


def fetch(name: str) -> str:
    """Makes one set present; returns what was done in a few words."""
    stamp = _fingerprint(name)
    with _locked(name):
        if _is_current(name, stamp):
            return "there already"
        maven = shutil.which("mvn")
        if maven is None:
            return NO_MAVEN
        return _replace(name, stamp, maven)


def _fingerprint(name: str) -> str:
    digest = hashlib.sha256(GOAL.encode())
    for source in (HERE / f"{name}.xml", LOG_SETTINGS):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _is_current(name: str, stamp: str) -> bool:
    path = peer_folder(name) / STAMP
    return path.is_file() and path.read_text() == stamp


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """Two runs that share the cache fetch a set once."""
    parent = peer_folder(name).parent
    parent.mkdir(parents=True, exist_ok=True)
    with (parent / f".{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _replace(name: str, stamp: str, maven: str) -> str:
    target = peer_folder(name)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=target.parent) as scratch:
        fresh = Path(scratch) / "fresh"
        _run_maven(name, fresh, maven)
        shutil.copy(LOG_SETTINGS, fresh)
        (fresh / STAMP).write_text(stamp)
        count = len(list(fresh.glob("*.jar")))
        if target.exists():
            target.rename(Path(scratch) / "stale")
        fresh.rename(target)
    return f"fetched {count} jars"


def _run_maven(name: str, output: Path, maven: str) -> None:
    command = [maven, "-B", "-q", "-f", str(HERE / f"{name}.xml"), GOAL]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={output}"]
    complaint = ""
    for _ in range(ATTEMPTS):
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            complaint = f"Maven gave no answer in {MAVEN_TIMEOUT_S} s"
            continue
        if run.returncode == 0 and any(output.glob("*.jar")):
            return
        lines = (run.stdout + run.stderr).splitlines()
        errors = [line for line in lines if line.startswith("[ERROR]")]
        complaint = errors[0].removeprefix("[ERROR]").strip() if errors else "Maven failed"
        shutil.rmtree(output, ignore_errors=True)
    raise FetchFailed(complaint)


def main(arguments: Sequence[str]) -> int:
    names = list(arguments) or known_sets()
    unknown = [name for name in names if name not in known_sets()]
    if unknown:
        print(f"peers: unknown set {unknown[0]}; known: {', '.join(known_sets())}", file=sys.stderr)
        return 2
    missing = 0
    for name in names:
        print(f"peers: {name}: ", end="", flush=True)
        try:
            outcome = fetch(name)
        except FetchFailed as failure:
            outcome = f"failed: {failure}"
        print(outcome, flush=True)
        missing += outcome == NO_MAVEN or outcome.startswith("failed")
    if missing:
        print("peers: tests and benchmarks that need the missing jars are skipped")
    return 1 if missing and peers_required() else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

"""Fetches the judges into the cache: jars with Maven, clients' own suites with pip and Go.

    python tools/peers/fetch.py            every set
    python tools/peers/fetch.py spark-kafka

A set is described beside this file: `<set>.xml` is a pom whose jars are copied, `<set>.txt` pins a
source distribution whose tests are unpacked, `<set>/go.mod` pins a Go module whose tests are
compiled or, with a `main.go` beside it, what that program needs. Each tool runs with the machine's
own settings. A set that is already there is reused until its description changes. Without the tool
this says so and ends well: the tests that need the set are skipped. `OTTLA_REQUIRE_PEERS=1` makes a
missing set a failure; CI sets it. The set `browser` is Debian's Chromium (browser.py).
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from browser import fetch_browser

from ottla.testing.peers import STAMP, cache_folder, peer_folder, peers_required

HERE = Path(__file__).parent
BROWSER = "browser"
LOG_SETTINGS = HERE / "log4j.properties"
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
GO_PACKAGES = {"franz-go": "github.com/twmb/franz-go/pkg/kgo"}
ATTEMPTS = 3
TOOL_TIMEOUT_S = 600


class FetchFailed(Exception):
    """A set could not be brought; the message is one line."""


class PeerSet(ABC):
    """One set: which tool brings it, out of which files, and how."""

    tool: str

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    @abstractmethod
    def description(self) -> list[Path]:
        """The files on which the set depends."""

    @abstractmethod
    def bring(self, tool: str, output: Path) -> str:
        """Fills `output`, which is not there yet; returns what was done in a few words."""

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(GOAL.encode())
        for source in self.description:
            digest.update(source.read_bytes())
        return digest.hexdigest()

    def find_tool(self) -> str | None:
        return shutil.which(self.tool)

    def complaint(self, output: str) -> str:
        """The line of a failed tool's output that says why."""
        lines = output.strip().splitlines()
        return lines[-1].strip() if lines else f"{self.tool} failed"

    def run(self, command: Sequence[str], output: Path, folder: Path = HERE) -> None:
        """Runs the tool until it succeeds, a few times at most, each into an empty `output`."""
        complaint = ""
        for _ in range(ATTEMPTS):
            try:
                run = subprocess.run(
                    command,
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=TOOL_TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                complaint = f"{self.tool} gave no answer in {TOOL_TIMEOUT_S} s"
                continue
            if run.returncode == 0:
                return
            complaint = self.complaint(run.stdout + run.stderr)
            shutil.rmtree(output, ignore_errors=True)
        raise FetchFailed(complaint)


class JarSet(PeerSet):
    """The runtime dependencies of a pom."""

    tool = "mvn"

    @property
    def description(self) -> list[Path]:
        return [HERE / f"{self.name}.xml", LOG_SETTINGS]

    def bring(self, tool: str, output: Path) -> str:
        goal = [GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={output}"]
        self.run([tool, "-B", "-q", "-f", str(self.description[0]), *goal], output)
        count = len(list(output.glob("*.jar")))
        if not count:
            raise FetchFailed("Maven brought no jars")
        shutil.copy(LOG_SETTINGS, output)
        return f"fetched {count} jars"

    def complaint(self, output: str) -> str:
        errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
        return errors[0].removeprefix("[ERROR]").strip() if errors else "Maven failed"


class SdistTests(PeerSet):
    """The folder `test` of a Python source distribution, pinned with its hash."""

    tool = "pip"

    @property
    def description(self) -> list[Path]:
        return [HERE / f"{self.name}.txt"]

    def find_tool(self) -> str | None:
        # The environment of the project has none; `make setup` may have made one for uv.
        own = cache_folder() / "uv" / "bin" / "pip"
        return shutil.which("pip3") or shutil.which("pip") or (str(own) if own.exists() else None)

    def bring(self, tool: str, output: Path) -> str:
        (pins,) = self.description
        package = pins.read_text().split("==")[0].splitlines()[-1]
        with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
            options = ["--quiet", "--no-deps", "--require-hashes", "--no-binary", package]
            download = Path(scratch) / "download"
            options += ["--dest", str(download), "--requirement", str(pins)]
            self.run([tool, "download", *options], download)
            (archive,) = download.iterdir()
            with tarfile.open(archive) as sources:
                wanted = [m for m in sources.getmembers() if Path(m.name).parts[1:2] == ("test",)]
                sources.extractall(Path(scratch) / "sources", members=wanted, filter="data")
            (unpacked,) = (Path(scratch) / "sources").iterdir()
            unpacked.rename(output)
        return f"fetched {len(wanted)} files"


class GoTests(PeerSet):
    """The tests of one package of a Go module, compiled; go.sum pins the sources."""

    tool = "go"

    @property
    def description(self) -> list[Path]:
        return [HERE / self.name / "go.mod", HERE / self.name / "go.sum"]

    def bring(self, tool: str, output: Path) -> str:
        program = output / "tests"
        command = [tool, "test", "-c", "-mod=readonly", "-o", str(program)]
        self.run([*command, GO_PACKAGES[self.name]], output, HERE / self.name)
        return "fetched and compiled"


class GoProgram(GoTests):
    """A program of ours on clients written in Go."""

    @property
    def description(self) -> list[Path]:
        return [*super().description, HERE / self.name / "main.go"]

    def bring(self, tool: str, output: Path) -> str:
        command = [tool, "build", "-mod=readonly", "-o", str(output / "program"), "."]
        self.run(command, output, HERE / self.name)
        return "fetched and compiled"


def _go_set(folder: Path) -> PeerSet:
    return (GoProgram if (folder / "main.go").exists() else GoTests)(folder.name)


def known_sets() -> dict[str, PeerSet]:
    jars: list[PeerSet] = [JarSet(pom.stem) for pom in HERE.glob("*.xml")]
    sdists: list[PeerSet] = [SdistTests(pins.stem) for pins in HERE.glob("*.txt")]
    modules: list[PeerSet] = [_go_set(module.parent) for module in HERE.glob("*/go.mod")]
    return {peers.name: peers for peers in sorted(jars + sdists + modules, key=lambda p: p.name)}


def fetch(name: str) -> str:
    """Makes one set present; returns what was done in a few words."""
    peers = known_sets()[name]
    stamp = peers.fingerprint
    with _locked(name):
        if _is_current(name, stamp):
            return "there already"
        tool = peers.find_tool()
        if tool is None:
            return f"skipped: {peers.tool} not found"
        return _replace(peers, stamp, tool)


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


def _replace(peers: PeerSet, stamp: str, tool: str) -> str:
    target = peer_folder(peers.name)
    with tempfile.TemporaryDirectory(prefix=f".{peers.name}.", dir=target.parent) as scratch:
        fresh = Path(scratch) / "fresh"
        done = peers.bring(tool, fresh)
        (fresh / STAMP).write_text(stamp)
        if target.exists():
            target.rename(Path(scratch) / "stale")
        fresh.rename(target)
    return done


def main(arguments: Sequence[str]) -> int:
    known = known_sets()
    names = list(arguments) or [BROWSER, *known]
    unknown = [name for name in names if name not in (BROWSER, *known)]
    if unknown:
        print(
            f"peers: unknown set {unknown[0]}; known: {', '.join((BROWSER, *known))}",
            file=sys.stderr,
        )
        return 2
    missing = 0
    if BROWSER in names:
        names.remove(BROWSER)
        # Not everybody may install programs: without one the console's tests are skipped, always.
        print(f"peers: {BROWSER}: {fetch_browser()}", flush=True)
    for name in names:
        print(f"peers: {name}: ", end="", flush=True)
        try:
            outcome = fetch(name)
        except FetchFailed as failure:
            outcome = f"failed: {failure}"
        print(outcome, flush=True)
        missing += outcome.startswith(("skipped", "failed"))
    if missing:
        print("peers: tests and benchmarks that need what is missing are skipped")
    return 1 if missing and peers_required() else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

"""tools/peers/fetch.py with a Maven, a pip and a Go that the test wrote."""

import importlib.util
import sys
import tarfile
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[4] / "tools" / "peers" / "fetch.py"
FAKE_MAVEN = """\
#!{python}
import pathlib, sys
target = [a.partition("=")[2] for a in sys.argv if a.startswith("-DoutputDirectory=")][0]
calls = pathlib.Path("{calls}")
calls.write_text(calls.read_text() + "call\\n" if calls.exists() else "call\\n")
pathlib.Path(target).mkdir()
(pathlib.Path(target) / "some.jar").touch()
{ending}
"""


@pytest.fixture
def fetch(tmp_path, monkeypatch):
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OTTLA_REQUIRE_PEERS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.syspath_prepend(str(TOOL.parent))
    spec = importlib.util.spec_from_file_location("peers_fetch", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def maven(tmp_path):
    calls = tmp_path / "calls"

    def install(ending=""):
        path = tmp_path / "bin" / "mvn"
        path.parent.mkdir(exist_ok=True)
        path.write_text(FAKE_MAVEN.format(python=sys.executable, calls=calls, ending=ending))
        path.chmod(0o755)
        return lambda: len(calls.read_text().splitlines())

    return install


@pytest.fixture
def tool(tmp_path):
    """`tool(name, lines)` puts a program of Python lines on the path."""

    def install(name, lines):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!{sys.executable}\nimport pathlib, shutil, sys\n{lines}\n")
        path.chmod(0o755)

    return install


def test_a_set_is_fetched_once_and_again_when_its_pom_changed(fetch, maven, tmp_path, capsys):
    calls = maven()
    folder = tmp_path / "cache" / "peers" / "spark-kafka"
    assert fetch.main(["spark-kafka"]) == 0
    assert capsys.readouterr().out == "peers: spark-kafka: fetched 1 jars\n"
    assert sorted(path.name for path in folder.iterdir()) == [
        ".stamp",
        "log4j.properties",
        "some.jar",
    ]
    assert fetch.main(["spark-kafka"]) == 0
    assert capsys.readouterr().out == "peers: spark-kafka: there already\n"
    assert calls() == 1
    (folder / ".stamp").write_text("of an older pom")
    (folder / "old.jar").touch()
    assert fetch.main(["spark-kafka"]) == 0
    assert calls() == 2
    assert not (folder / "old.jar").exists()
    left = [path.name for path in folder.parent.iterdir() if not path.name.endswith(".lock")]
    assert left == ["spark-kafka"], "no scratch folder stays"


def test_a_failing_maven_leaves_nothing_and_is_tried_again(fetch, maven, tmp_path, capsys):
    calls = maven("print('[ERROR] no such artifact'); sys.exit(1)")
    assert fetch.main(["spark-kafka"]) == 0
    assert "failed: no such artifact" in capsys.readouterr().out
    assert calls() == fetch.ATTEMPTS
    assert not (tmp_path / "cache" / "peers" / "spark-kafka").exists()


def test_without_the_tools_it_says_so_and_ends_well_unless_peers_are_required(
    fetch, capsys, monkeypatch
):
    assert fetch.main([]) == 0
    printed = capsys.readouterr().out.splitlines()
    tools = {"franz-go": "go", "go-clients": "go", "kafka-python-suite": "pip"}
    assert printed[0].startswith("peers: browser: skipped: none of chromium, ")
    assert printed[1:-1] == [
        f"peers: {name}: skipped: {tools.get(name, 'mvn')} not found" for name in fetch.known_sets()
    ]
    monkeypatch.setenv("OTTLA_REQUIRE_PEERS", "1")
    assert fetch.main([]) == 1


def test_the_tests_of_a_source_distribution_are_unpacked(fetch, tool, tmp_path, capsys):
    for name, folder in (("test_one.py", "test"), ("client.py", "client")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    with tarfile.open(tmp_path / "pkg-1.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "test", "pkg-1/test")
        archive.add(tmp_path / "client", "pkg-1/client")
    tool(
        "pip3",
        "assert '--require-hashes' in sys.argv\n"
        "target = pathlib.Path(sys.argv[sys.argv.index('--dest') + 1])\n"
        "target.mkdir()\n"
        f"shutil.copy('{tmp_path}/pkg-1.tar.gz', target)",
    )
    assert fetch.main(["kafka-python-suite"]) == 0
    assert capsys.readouterr().out == "peers: kafka-python-suite: fetched 2 files\n"
    folder = tmp_path / "cache" / "peers" / "kafka-python-suite"
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert files == [".stamp", "test/test_one.py"]


def test_the_tests_of_a_go_module_are_compiled(fetch, tool, tmp_path, capsys):
    tool(
        "go",
        "assert pathlib.Path('go.sum').is_file() and '-mod=readonly' in sys.argv\n"
        "target = pathlib.Path(sys.argv[sys.argv.index('-o') + 1])\n"
        "target.parent.mkdir()\n"
        "target.touch()",
    )
    assert fetch.main(["franz-go"]) == 0
    assert capsys.readouterr().out == "peers: franz-go: fetched and compiled\n"
    assert (tmp_path / "cache" / "peers" / "franz-go" / "tests").is_file()


def test_a_program_in_go_is_built(fetch, tool, tmp_path, capsys):
    tool(
        "go",
        "assert sys.argv[1] == 'build' and pathlib.Path('main.go').is_file()\n"
        "target = pathlib.Path(sys.argv[sys.argv.index('-o') + 1])\n"
        "target.parent.mkdir()\n"
        "target.touch()",
    )
    assert fetch.main(["go-clients"]) == 0
    assert capsys.readouterr().out == "peers: go-clients: fetched and compiled\n"
    assert (tmp_path / "cache" / "peers" / "go-clients" / "program").is_file()


def test_a_failing_go_is_quoted(fetch, tool, capsys):
    tool("go", "print('go: downloading'); sys.exit('go: checksum mismatch')")
    assert fetch.main(["franz-go"]) == 0
    assert "peers: franz-go: failed: go: checksum mismatch\n" in capsys.readouterr().out


def test_the_suite_is_of_the_client_that_is_installed():
    pinned = (TOOL.parent / "kafka-python-suite.txt").read_text().splitlines()[-1].split()
    locked = (TOOL.parents[2] / "requirements.lock").read_text()
    assert f"\n{pinned[0]} " in locked
    assert pinned[1] in locked, "the lock has the hash of the source distribution too"


def test_an_unknown_set_is_refused_by_name(fetch, capsys):
    assert fetch.main(["kafka-9"]) == 2
    assert "unknown set kafka-9" in capsys.readouterr().err


def test_no_pom_names_a_repository():
    poms = sorted(TOOL.parent.glob("*.xml"))
    assert poms
    for pom in poms:
        assert "<repositor" not in pom.read_text(), pom

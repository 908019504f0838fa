"""tools/peers/fetch.py with a Maven that the test wrote."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "peers" / "fetch.py"
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


def test_without_maven_it_says_so_and_ends_well_unless_peers_are_required(
    fetch, capsys, monkeypatch
):
    assert fetch.main([]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:-1] == [f"peers: {name}: skipped: mvn not found" for name in fetch.known_sets()]
    monkeypatch.setenv("OTTLA_REQUIRE_PEERS", "1")
    assert fetch.main([]) == 1


def test_an_unknown_set_is_refused_by_name(fetch, capsys):
    assert fetch.main(["kafka-9"]) == 2
    assert "unknown set kafka-9" in capsys.readouterr().err


def test_no_pom_names_a_repository():
    for pom in TOOL.parent.glob("*.xml"):
        assert "<repositor" not in pom.read_text(), pom

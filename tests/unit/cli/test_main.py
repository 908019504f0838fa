"""The command line as a process: help, one-line failures, closed pipes, Ctrl-C."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.cli import main as cli_main
from ottla.errors import ErrorCode, InvariantViolated, KafkaError
from ottla.metadata.store import ConnectionLossError, NoNodeError

COMMAND = [sys.executable, "-m", "ottla"]


def ottla(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=30,
        check=False,
    )


def dead_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port


def test_help_names_every_command_and_imports_none() -> None:
    code = (
        "import sys; from ottla.cli.main import run; run(['--help']); "
        "print(sorted(n for n in sys.modules if n.startswith('ottla.') and 'cli' not in n))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in cli_main.COMMANDS:
        assert f"\n  {name} " in done.stdout
    assert done.stdout.endswith("['ottla.errors']\n")


@pytest.mark.parametrize("command", cli_main.COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run([command, "--help"]) == 0
    assert f"Usage: ottla {command}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("ottla, version ")


NO_NODE = "Timed out waiting for a node assignment. Call: "
DEAD = {
    "topics --list": f"Error while executing topic command : {NO_NODE}listTopics (127.0.0.1:",
    "configs --alter --topic t --add-config a=b": (
        f"Error while executing config command : {NO_NODE}describeConfigs (127.0.0.1:"
    ),
    "cluster": f"Error: {NO_NODE}metadata (127.0.0.1:",
    "reassign --list": f"Error: {NO_NODE}listPartitionReassignments (127.0.0.1:",
    "elect --election-type preferred --all-topic-partitions": (
        f"Timeout waiting for election results ({NO_NODE}electLeaders (127.0.0.1:"
    ),
    "events --follow": f"Error: {NO_NODE}metadata (127.0.0.1:",
}


def test_a_dead_bootstrap_server_is_one_line_soon() -> None:
    begun = time.monotonic()
    environment = os.environ | {"OTTLA_BOOTSTRAP_SERVER": f"127.0.0.1:{dead_port()}"}
    started = {
        line: subprocess.Popen(
            [*COMMAND, *line.split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for line in DEAD
    }
    for line, process in started.items():
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err.count("\n")) == (1, "", 1), line
        assert err.startswith(DEAD[line])
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["no-such"], "No such command 'no-such'."),
        (["topics", "--no-such"], "No such option '--no-such'."),
        (
            ["topics", "--create", "--topic", "t", "--partitions", "many"],
            "Error while executing topic command : Cannot parse argument 'many' of option "
            "partitions",
        ),
        (
            ["topics", "--create", "--topic", "t", "--replication-factor", "99999999999"],
            "Error while executing topic command : Cannot parse argument '99999999999' of option "
            "replication-factor",
        ),
        (["up", "--brokers", "three"], "'three' is not a valid integer"),
        (["up", "--brokers", "0"], "Invalid value for '--brokers'"),
        (["up", "--set", "novalue"], "'novalue' is not key=value"),
        (["up", "--port", "65535", "--brokers", "2"], "leaves no room for 2 brokers"),
        (["up", "--port", "2180", "--brokers", "3"], "port 2181 is wanted by a broker and by"),
        (
            ["up", "--zookeeper", "a:1", "--zookeeper-port", "2"],
            "--zookeeper and --zookeeper-port cannot be used together",
        ),
        (["up", "--host", "0.0.0.0"], "name with --advertise the host that clients use"),
        (["up", "--host", "::", "--advertise", "::"], "--advertise :: leads clients nowhere"),
        (["broker"], "Missing option '--config'."),
        (["broker", "--config", "/no/such"], "'/no/such' does not exist."),
        (
            ["bench", "everything"],
            "'everything' is not one of 'codec', 'store', 'start', 'topics', 'data', 'spark', "
            "'attacks'.",
        ),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli_main.run(arguments) == 1
    out, err = capsys.readouterr()
    assert out == "" and text in err and err.count("\n") == 1


def test_a_bad_broker_config_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.properties"
    path.write_text("zookeeper.connect=z:1\nbrokr.id=1\n")
    assert cli_main.run(["broker", "--config", str(path)]) == 1
    assert capsys.readouterr().err == (
        "Error: Unknown configuration brokr.id, did you mean broker.id?\n"
    )
    path.write_text("zookeeper.connect=z:1\n")
    assert cli_main.run(["broker", "--config", str(path), "--set", "broker.id=x"]) == 1
    assert capsys.readouterr().err == (
        "Error: Invalid value x for configuration broker.id: Not a number of type INT\n"
    )


def test_up_hands_its_options_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ottla.process import supervisor
    from ottla.process.up_options import UpOptions

    seen: list[UpOptions] = []

    def run(options: UpOptions) -> int:
        seen.append(options)
        return 3

    monkeypatch.setattr(supervisor, "run", run)
    cluster = ["--brokers", "3", "--port", "19092", "--zookeeper", "z:1/c", "--data", str(tmp_path)]
    settings = ["--set", "num.partitions=5", "--set", "a=b=c", "--detach", "--restart"]
    settings += ["--host", "0.0.0.0", "--advertise", "box.lan"]
    code = cli_main.run(["up", *cluster, *settings])
    assert code == 3
    assert seen == [
        UpOptions(
            brokers=3,
            port=19092,
            zookeeper_port=2181,
            zookeeper="z:1/c",
            data=tmp_path,
            overrides={"num.partitions": "5", "a": "b=c"},
            host="0.0.0.0",
            advertise="box.lan",
            detach=True,
            restart=True,
        )
    ]


def test_bench_runs_its_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def measure(output: str) -> int:
        seen.append(output)
        return 2

    monkeypatch.setitem(sys.modules, "ottla.bench.codec", SimpleNamespace(main=measure))
    assert cli_main.run(["bench", "codec", "--output", "json"]) == 2
    assert seen == ["json"]


def test_bench_names_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ottla.bench.store", None)
    assert cli_main.run(["bench", "store"]) == 1
    assert "this needs ottla.bench.store, which is not installed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("failure", "line", "code"),
    [
        (OSError(28, "No space left on device", "/x"), "Error: /x: No space left on device\n", 1),
        (KeyboardInterrupt(), "\nError: interrupted\n", 130),
        (ConnectionLossError(), "Error: metadata store: connection loss\n", 1),
        (NoNodeError("/a"), "Error: metadata store: no node /a\n", 1),
        (KafkaError(ErrorCode.NOT_CONTROLLER, "two\nlines"), "Error: two lines\n", 1),
        (InvariantViolated(), "Error: InvariantViolated\n", 1),
    ],
)
def test_failures_below_are_one_line(
    failure: BaseException,
    line: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from ottla.process import supervisor
    from ottla.process.up_options import UpOptions

    def run(_: UpOptions) -> int:
        raise failure

    monkeypatch.setattr(supervisor, "run", run)
    assert cli_main.run(["up"]) == code
    assert capsys.readouterr().err == line


def test_a_closed_pipe_is_silent_and_no_success() -> None:
    """As in `ottla --help | true`: nobody reads what is written."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure(closed: str) -> None:
    command = f"exec {shlex.quote(sys.executable)} -m ottla --version {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_is_one_line() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [*COMMAND, "topics", "--list", "--bootstrap-server", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        silent.settimeout(20)
        peer, _ = silent.accept()  # it is under way now
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        peer.close()
    assert (process.returncode, out, err.strip()) == (130, "", "Error: interrupted")

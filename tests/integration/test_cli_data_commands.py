"""`ottla produce`, `consume` and `groups` on a running cluster of Ottla."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.cli import main as cli_main
from ottla.testing.cluster import Cluster

COMMAND = [sys.executable, "-m", "ottla"]
WAIT_S = 20.0


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


Cli = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def ottla(running: Cluster, capsysbinary: pytest.CaptureFixture[bytes]) -> Cli:
    def run(command: str, *arguments: str) -> tuple[int, list[str], str]:
        place = ["--bootstrap-server", running.bootstrap_servers]
        code = cli_main.run([command, *place, *arguments])
        out, err = capsysbinary.readouterr()
        return code, out.decode().splitlines(), err.decode()

    return run


@pytest.fixture
def topic(ottla: Cli, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", ".").replace("]", "")
    made = ottla(
        "topics", "--create", "--topic", name, "--partitions", "3", "--replication-factor", "3"
    )
    assert made[0] == 0
    return str(name)


def spawn(running: Cluster, command: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, command, "--bootstrap-server", running.bootstrap_servers, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # `select` sees no line that was read ahead
    )


def line_of(process: subprocess.Popen[bytes]) -> bytes:
    """The next line that comes on stdout, in time."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], WAIT_S)
    assert ready, "no line came"
    return process.stdout.readline()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back(ottla: Cli, topic: str, tmp_path: Path, compression: str) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"key-{n % 50}:value {n}\n" for n in range(5000)) + "last:one")
    code, out, err = ottla(
        "produce", topic, "--file", str(path), "--key-separator", ":", "--compression", compression
    )
    assert (code, out) == (0, []) and err.startswith(f"5001 records to {topic} in ")
    code, lines, err = ottla("consume", topic, "--keys", "--separator", ":")
    assert (code, err) == (0, "")
    assert sorted(lines) == sorted(path.read_text().splitlines())
    of_one_key = [line for line in lines if line.startswith("key-7:")]
    assert of_one_key == [f"key-7:value {n}" for n in range(7, 5000, 50)]


def test_keys_go_where_other_clients_put_them(running: Cluster, ottla: Cli, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": running.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for n in range(100):
        producer.produce(topic, key=f"key {n}", value="theirs")
    assert producer.flush(WAIT_S) == 0
    process = spawn(running, "produce", topic, "--key-separator", "\\t")
    process.communicate("".join(f"key {n}\tours\n" for n in range(100)).encode(), timeout=WAIT_S)
    assert process.returncode == 0
    places: dict[str, set[int]] = {"theirs": set(), "ours": set()}
    for line in ottla("consume", topic, "--format", "json")[1]:
        record = json.loads(line)
        places[record["value"]].add((record["key"], record["partition"]))
    assert places["theirs"] == places["ours"] and len(places["ours"]) == 100


def test_json_comes_back(ottla: Cli, topic: str, tmp_path: Path) -> None:
    records = [
        {"key": "k", "value": "v", "headers": [["h", "1"], ["h", None]], "partition": 2,
         "timestamp": 1_600_000_000_000},
        {"key": None, "value": None, "headers": [], "partition": 0, "timestamp": 5},
        {"key": {"base64": "/w=="}, "value": "é\n", "headers": [], "partition": 1, "timestamp": 6},
    ]  # fmt: skip
    path = tmp_path / "lines"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert (
        ottla("produce", "--topic", topic, "--format", "json", "--file", str(path), "--quiet")[2]
        == ""
    )
    code, lines, _ = ottla("consume", topic, "--format", "json")
    back = {record["partition"]: record for record in map(json.loads, lines)}
    assert code == 0 and len(back) == 3
    for record in records:
        added = {"topic": topic, "offset": 0, "timestamp_type": "CreateTime"}
        assert back[record["partition"]] == record | added
    text = ottla("consume", topic, "--partition", "2", "--keys", "--headers", "--timestamps",
                 "--positions")  # fmt: skip
    assert text[1] == ["CreateTime:1600000000000\tPartition:2\tOffset:0\th:1,h:null\tk\tv"]
    # Written twice: what consume prints is what produce reads.
    path.write_text("\n".join(lines))
    assert ottla("produce", topic, "--format", "json", "--file", str(path))[0] == 0
    assert len(ottla("consume", topic)[1]) == 2 * 4  # one value has two lines


def test_where_to_begin(ottla: Cli, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{n}\n" for n in range(10)))
    assert ottla("produce", topic, "--file", str(path), "--partition", "1", "--acks", "1")[0] == 0

    def values(*options: str) -> list[int]:
        code, lines, err = ottla("consume", topic, *options)
        assert (code, err) == (0, "")
        return [int(line) for line in lines]

    assert values() == values("--from-beginning") == list(range(10))
    assert values("--offset", "7") == [7, 8, 9]
    assert values("--offset=-2") == [8, 9]
    assert values("--offset", "latest") == values("--partition", "0") == []
    assert values("--partition", "1", "--offset", "earliest", "--max-messages", "3") == [0, 1, 2]


def test_since_when(ottla: Cli, topic: str, tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    ages_h = (30, 20, 2, 1)
    records = [
        {"value": f"{age} h", "partition": n % 2, "timestamp": now_ms - age * 3_600_000}
        for n, age in enumerate(ages_h)
    ]
    path = tmp_path / "lines"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ottla("produce", topic, "--format", "json", "--file", str(path))[0] == 0

    def values(since: str) -> set[str]:
        code, lines, err = ottla("consume", topic, "--since", since)
        assert (code, err) == (0, "")
        return set(lines)

    assert values("1d") == {"20 h", "2 h", "1 h"}
    assert values("1h30m") == {"1 h"}
    assert values("PT10M") == set()
    assert values("2001-01-01") == values("1000") == {f"{age} h" for age in ages_h}


def test_without_acknowledgement(running: Cluster, ottla: Cli, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("a\nb\n")
    follower = spawn(running, "consume", topic, "--follow", "--from-beginning")
    assert ottla("produce", topic, "--file", str(path), "--acks", "0", "--partition", "0")[0] == 0
    assert [line_of(follower), line_of(follower)] == [b"a\n", b"b\n"]
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=WAIT_S)
    assert (follower.returncode, err) == (0, b""), "following ends with Ctrl-C: that is no error"


def test_typed_lines_are_sent_at_once_and_followed(running: Cluster, topic: str) -> None:
    writer = spawn(running, "produce", topic, "--headers")
    assert writer.stdin is not None
    writer.stdin.write(b"a:1,b:2\tfirst\n")
    writer.stdin.flush()
    reader = spawn(running, "consume", topic, "--follow", "--from-beginning", "--headers")
    assert line_of(reader) == b"a:1,b:2\tfirst\n"
    writer.stdin.write(b"\tsecond\n")
    writer.stdin.flush()
    assert line_of(reader) == b"NO_HEADERS\tsecond\n"
    for process, ending in ((writer, (130, b"Error: interrupted")), (reader, (0, b""))):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, err.strip()) == ending


def test_a_topic_is_deleted_under_a_reader(running: Cluster, ottla: Cli, topic: str) -> None:
    reader = spawn(running, "consume", topic, "--follow", "--from-beginning")
    writer = spawn(running, "produce", topic)
    writer.communicate(b"first\n", timeout=WAIT_S)
    assert line_of(reader) == b"first\n"
    assert ottla("topics", "--delete", "--topic", topic)[0] == 0
    _, err = reader.communicate(timeout=60)
    gone = f"Error: the topic '{topic}' was deleted in the meantime\n"
    assert (reader.returncode, err.decode()) == (1, gone)


def test_closed_pipe(running: Cluster, ottla: Cli, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("x" * 100 + "\n" + ("y" * 99 + "\n") * 30_000)
    assert ottla("produce", topic, "--file", str(path), "--partition", "0")[0] == 0
    reader = spawn(running, "consume", topic)
    assert line_of(reader).startswith(b"xxx")
    assert reader.stdout is not None and reader.stderr is not None
    reader.stdout.close()
    reader.wait(timeout=WAIT_S)
    assert reader.stderr.read() == b""
    reader.stderr.close()


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        (
            "a:b\nc\n",
            ["--key-separator", ":"],
            "line 2: no key: ':' is not in it (the line before it is written)",
        ),
        ("x\n", ["--headers"], "line 1: no tab after the headers"),
        ("h\tx\n", ["--headers"], "line 1: the header 'h' is not name:value"),
        ("[]\n", ["--format", "json"], "line 1: not a JSON object"),
        ('{"valeu":1}\n', ["--format", "json"], "line 1: unknown field 'valeu'"),
        ("{\n", ["--format", "json"], "line 1: not JSON: "),
        ("x\n", ["--partition", "7"], "Error: refused has 3 partitions, there is no 7"),
        (
            "{}\n{}\n" + '{"partition":7}\n',
            ["--format", "json"],
            "line 3: refused has 3 partitions, there is no 7 (the 2 lines before it are written)",
        ),
    ],
)
def test_lines_that_are_no_records(
    ottla: Cli, tmp_path: Path, text: str, options: list[str], reason: str
) -> None:
    ottla("topics", "--create", "--topic", "refused", "--partitions", "3")
    path = tmp_path / "lines"
    path.write_text(text)
    code, out, err = ottla("produce", "refused", "--file", str(path), *options)
    assert (code, out, err.count("\n")) == (1, [], 1)
    assert reason in err


def test_failures_in_one_line(ottla: Cli, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    for arguments in (
        ("produce", "no-such-topic", "--file", "/dev/null"),
        ("produce", "t", "--file", str(nothing)),
        ("produce", "t", "--file", str(tmp_path)),
        ("consume", "no-such-topic"),
        ("consume", "t", "--offset", "x"),
        ("consume", "t", "--topic", "u"),
        ("consume",),
        ("consume", "t", "--offset", "1", "--from-beginning"),
        ("consume", "t", "--offset", "1", "--since", "1h"),
        ("consume", "t", "--since", "yesterday"),
        ("consume", "t", "--group", "g", "--partition", "0"),
        ("consume", "t", "--group", "g", "--since", "1h"),
        ("consume", "no-such-topic", "--group", "g"),
        ("consume", "t", "--property", "print.colour=true"),
    ):
        code, out, err = ottla(*arguments)
        assert (code, out, err.count("\n")) == (1, [], 1), err
        if "no-such-topic" in arguments:
            assert "`ottla topics --create --topic no-such-topic` makes one" in err


def test_a_leader_moves_under_a_producer(running: Cluster, ottla: Cli, topic: str) -> None:
    writer = spawn(running, "produce", topic, "--quiet")
    assert writer.stdin is not None
    reader = spawn(running, "consume", topic, "--follow", "--from-beginning")
    sent = []
    for round_number in range(3):
        for n in range(50):
            sent.append(b"%d %d\n" % (round_number, n))
            writer.stdin.write(sent[-1])
        writer.stdin.flush()
        got = [line_of(reader) for _ in range(50)]
        assert sorted(got) == sorted(sent[-50:])
        if round_number < 2:
            running.stop_broker(round_number)
            running.start_broker(round_number)
    assert writer.communicate(timeout=WAIT_S)[1] == b"" and writer.returncode == 0
    os.kill(reader.pid, signal.SIGINT)
    reader.communicate(timeout=WAIT_S)
    assert len(ottla("consume", topic)[1]) == 150


def test_groups(running: Cluster, ottla: Cli, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("a\nb\nc\n")
    ottla("produce", topic, "--file", str(path), "--partition", "1")
    consumer = Consumer({"bootstrap.servers": running.bootstrap_servers, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition(topic, 1, 1)], asynchronous=False)
    consumer.close()
    assert ottla("groups", "--list") == (0, ["g"], "")
    code, out, _ = ottla("groups", "--describe", "--group", "g", "--output", "json")
    row = {"topic": topic, "partition": 1, "current_offset": 1, "log_end_offset": 3, "lag": 2,
           "consumer_id": None, "host": None, "client_id": None}  # fmt: skip
    described = json.loads(out[0])
    assert code == 0 and [d["offsets"] for d in described] == [[row]]
    for long_ago in ("--to-datetime=1960-01-01T00:00:00.000", "--by-duration=P99999D"):
        out = ottla("groups", "--reset-offsets", "--group", "g", "--topic", f"{topic}:1",
                    long_ago, "--dry-run")[1]  # fmt: skip
        assert out[-1].split() == ["g", topic, "1", "0"]
    # CSV for all groups names them, even where there is one.
    export = ottla("groups", "--reset-offsets", "--all-groups", "--all-topics", "--to-latest",
                   "--export", "--dry-run")  # fmt: skip
    assert export == (0, [f"g,{topic},1,3"], "")
    plan = tmp_path / "plan"
    export = ottla("groups", "--reset-offsets", "--group", "g", "--all-topics", "--to-latest",
                   "--export", "--dry-run")  # fmt: skip
    assert export == (0, [f"{topic},1,3"], "")
    plan.write_text("\n".join(export[1]))
    assert ottla("groups", "--reset-offsets", "--group", "g", "--from-file", str(plan),
                 "--execute")[0] == 0  # fmt: skip
    out = ottla("groups", "--describe", "--group", "g")[1]
    assert out[2].split() == ["g", topic, "1", "3", "3", "0", "-", "-", "-"]
    assert ottla("groups", "--delete", "--group", "g")[0] == 0
    code, _, err = ottla("groups", "--describe", "--group", "g")
    assert (code, err) == (1, "Error: Consumer group 'g' does not exist.\n")


def committed(ottla: Cli, group: str) -> list[int | None]:
    (line,) = ottla("groups", "--describe", "--group", group, "--output", "json")[1]
    rows = json.loads(line)[0]["offsets"]
    return [row["current_offset"] for row in sorted(rows, key=lambda row: row["partition"])]


def write_lines(ottla: Cli, topic: str, folder: Path, lines: Iterable[tuple[int, str]]) -> None:
    path = folder / "lines"
    records = [{"value": value, "partition": partition} for partition, value in lines]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ottla("produce", topic, "--format", "json", "--file", str(path))[0] == 0


def test_a_group_goes_on_where_it_stopped(ottla: Cli, topic: str, tmp_path: Path) -> None:
    write_lines(ottla, topic, tmp_path, [(n % 3, f"{n}") for n in range(9)])
    code, lines, err = ottla("consume", topic, "--group", topic, "--max-messages", "4")
    assert (code, err, len(lines)) == (0, "", 4)
    first = set(lines)
    assert sum(offset or 0 for offset in committed(ottla, topic)) == 4, "what was printed"
    code, lines, err = ottla("consume", topic, "--group", topic)
    assert (code, err) == (0, "")
    assert len(lines) == 5 and first | set(lines) == {f"{n}" for n in range(9)}
    assert committed(ottla, topic) == [3, 3, 3]
    assert ottla("consume", topic, "--group", topic) == (0, [], "")
    assert ottla("groups", "--describe", "--group", topic, "--state")[1][-1].split()[-2:] == [
        "Empty",
        "0",
    ]
    reset = ("--reset-offsets", "--group", topic, "--topic", topic, "--to-offset", "2", "--execute")
    assert ottla("groups", *reset)[0] == 0
    assert len(ottla("consume", topic, "--group", topic)[1]) == 3
    # What another group never read begins at the beginning, or at the end where it follows.
    assert len(ottla("consume", topic, "--group", f"{topic}-2")[1]) == 9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_member_that_is_stopped_commits_and_leaves(
    running: Cluster, ottla: Cli, topic: str, tmp_path: Path, number: signal.Signals
) -> None:
    write_lines(ottla, topic, tmp_path, [(0, "a"), (1, "b")])
    words = ("consume", topic, "--group", topic, "--follow", "--from-beginning")
    reader = spawn(running, *words)
    assert {line_of(reader), line_of(reader)} == {b"a\n", b"b\n"}
    reader.send_signal(number)
    _, err = reader.communicate(timeout=WAIT_S)
    assert b"Traceback" not in err
    assert committed(ottla, topic) == [1, 1, 0]
    assert ottla("consume", topic, "--group", topic) == (0, [], ""), "nobody has to be waited for"


def test_members_share_the_partitions(
    running: Cluster, ottla: Cli, topic: str, tmp_path: Path
) -> None:
    """librdkafka, which knows range too, comes to one of ours and goes again."""
    ours = spawn(running, "consume", topic, "--group", topic, "--follow", "--positions")
    theirs = Consumer(
        {
            "bootstrap.servers": running.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
        }
    )

    def partitions() -> list[int]:
        _, lines, _ = ottla("groups", "--describe", "--group", topic, "--output", "json")
        rows = [row for group in json.loads(lines[0]) for row in group["offsets"]] if lines else []
        return [row["partition"] for row in rows if row["client_id"] == "ottla"]

    try:
        until(lambda: len(partitions()) == 3)
        theirs.subscribe([topic])
        until(lambda: theirs.poll(0.1) is None and len(theirs.assignment()) in (1, 2))
        kept = partitions()
        assert len(kept) + len(theirs.assignment()) == 3
        write_lines(ottla, topic, tmp_path, [(kept[0], "for us")])
        assert line_of(ours) == f"Partition:{kept[0]}\tOffset:0\tfor us\n".encode()
        other = theirs.assignment()[0].partition
        theirs.close()
        until(lambda: len(partitions()) == 3)
        write_lines(ottla, topic, tmp_path, [(other, "now for us")])
        assert line_of(ours) == f"Partition:{other}\tOffset:0\tnow for us\n".encode()
    finally:
        theirs.close()
        ours.send_signal(signal.SIGINT)
        ours.communicate(timeout=WAIT_S)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)

"""`ottla bench data` without any cluster: its rows, goals and plot, and what the tools print."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from ottla.bench import data, data_clients
from ottla.bench.data_cases import CASES, Case, Sample, median
from ottla.bench.data_clients import ClientFailed
from ottla.bench.data_plot import draw
from ottla.bench.table import Row, print_rows
from ottla.cli.bench import command
from ottla.errors import OttlaError


def case(key: str) -> Case:
    return next(case for case in CASES if case.key == key)


@pytest.mark.parametrize(
    ("key", "rate_times", "cpu_share"),
    [
        ("produce", 1.5, 1 / 4),
        ("produce-1k", 1.0, 1 / 4),
        ("produce-lz4", 1.0, 1 / 4),
        ("unbatched", 1.2, 1 / 4),
        ("replicated", 1.0, 1 / 4),
        ("consume", 1.0, 1 / 4),
        ("group", 1.0, 1 / 4),
    ],
)
def test_goals_of_throughput(key: str, rate_times: float, cpu_share: float) -> None:
    peer = Sample((1000.0,), 12.0, 500.0)
    met = Sample((1000.0 * rate_times,), 12.0 * cpu_share, 50.0)
    missed = Sample((1000.0 * rate_times - 1,), 12.0 * cpu_share + 0.1, 50.0)
    assert [row.holds for row in case(key).rows(1, met, peer)] == [True, True, None]
    assert [row.holds for row in case(key).rows(1, missed, peer)] == [False, False, None]


def test_goals_of_latency() -> None:
    rows = case("latency").rows(1, Sample((1.0, 5.1), 1, 1), Sample((1.0, 5.0), 1, 1))
    assert [row.holds for row in rows] == [True, False, None, None]


@pytest.mark.parametrize(
    ("memory_mb", "cpu", "holds"), [(250, 1.9, [True, True]), (251, 2.0, [False, False])]
)
def test_goals_of_idle_partitions(memory_mb: float, cpu: float, holds: list[bool]) -> None:
    rows = case("idle").rows(1, Sample((cpu,), 1, memory_mb), Sample((9.0,), 1, 1000))
    assert [row.holds for row in rows] == holds


@pytest.mark.parametrize("key", ["start-empty", "start-full"])
@pytest.mark.parametrize(("taken_s", "holds"), [(1.0, True), (1.01, False)])
def test_goal_of_a_start(key: str, taken_s: float, holds: bool) -> None:
    rows = case(key).rows(1, Sample((taken_s,), 1, 1), Sample((5.0,), 1, 1))
    assert [row.holds for row in rows] == [holds, None, None]


def test_the_median_is_taken_number_by_number() -> None:
    samples = [Sample((1.0, 30.0), 5, 10), Sample((2.0, 10.0), 4, 30), Sample((3.0, 20.0), 6, 20)]
    assert median(samples) == Sample((2.0, 20.0), 5, 30)


def test_rows_are_chosen_by_name_in_the_order_of_the_table() -> None:
    assert [case.key for case in data.chosen(["idle,produce", "consume"])] == [
        "produce",
        "consume",
        "idle",
    ]
    assert data.chosen([]) == list(data.CASES)
    with pytest.raises(OttlaError, match="no such row: nothing"):
        data.chosen(["nothing"])


def test_what_the_producer_tool_prints() -> None:
    printed = (
        "499 records sent, 99.8 records/sec (0.01 MB/sec), 1 ms avg latency\n"
        "2000 records sent, 812.5 records/sec (0.08 MB/sec), 2.0 ms avg latency, 3 ms 50th.\n"
    )
    assert data_clients.produced_rate(printed, 2000) == 812.5
    with pytest.raises(ClientFailed):
        data_clients.produced_rate(printed, 2001)
    with pytest.raises(ClientFailed):
        data_clients.produced_rate("", 1)


def test_what_the_consumer_tool_prints() -> None:
    line = (
        "2026-11-15 09:00:00:000, 2026-11-15 09:00:04:000, 19.07, 4.8, 200000, 50000.0, "
        "3000, 1000, 19.07, 200000.5\n"
    )
    assert data_clients.consumed_rate(line, 200_000) == 200_000.5
    with pytest.raises(ClientFailed):
        data_clients.consumed_rate(line, 200_001)


def test_quantiles_are_in_milliseconds() -> None:
    found = data_clients.summary([number / 1000 for number in range(1, 100)])
    assert found == pytest.approx((50.0, 99.0))


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_words_of_a_row_stay_whole(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    title = "ProducerPerformance, 2,000,000 records"
    missed = Row(title, 409_836, 280_073, "records/s", "≥ 1.5x Kafka's", False, True)
    print_rows([missed, Row("  broker CPU", 0.5, None, "s")], "text", "T")
    printed = capsys.readouterr().out
    for words in (title, "409,836 records/s", "280,073 records/s", "1.46×", "≥ 1.5x Kafka's"):
        assert words in printed
    assert printed.count("no") == 1


def test_the_plot_is_one_bar_for_each_row_with_a_peer() -> None:
    rows = [
        Row("fast & <good>", 300, 100, "records/s", "≥ 2x", True, higher_is_better=True),
        Row("slow", 40, 2, "s", "≤ Kafka's", False),
        Row("alone", 1, None, "s"),
    ]
    root = ElementTree.fromstring(draw(rows, "Title"))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "fast & <good> (goal ≥ 2x)" in texts
    assert "3.00×" in texts
    assert "0.05×" in texts
    assert not any("alone" in (text or "") for text in texts)


def test_options_of_rows_are_for_data_alone(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["codec", "--plot", str(tmp_path / "x.svg")])
    assert done.exit_code == 2
    assert "--plot is for `ottla bench data`" in done.output

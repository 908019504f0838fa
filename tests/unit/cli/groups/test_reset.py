"""What a reset of offsets is planned from: topics, times, files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli import main as cli_main
from ottla.cli.groups.output import export_lines
from ottla.cli.groups.reset import parse_datetime, parse_duration, parse_topics, read_plan
from ottla.client.groups.resets import ResetFailed
from ottla.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T02:00:00.000+02:00", 0),
        ("1969-12-31T23:00:00.000-0100", 0),
        ("2150-01-01T00:00:00.001", 5680281600001),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert parse_datetime(text) == expected


@pytest.mark.parametrize("text", ["2020-01-01", "x", "T", "2020-13-01T00:00:00.000"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ResetFailed):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1S", 1000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt-1h", -3_600_000),
        ("-PT1M", -60_000),
        ("PT0S", 0),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "5", "P", "PT", "P1DT", "P1Y", "PT1", "P1.5D"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ResetFailed, match="Text cannot be parsed to a Duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["P999999999DT999999999H", "-P999999999DT1H"])
def test_durations_beyond_all_bounds(text: str) -> None:
    with pytest.raises(ResetFailed, match="Exceeds capacity of Duration"):
        parse_duration(text)


def test_topics_and_partitions() -> None:
    assert parse_topics(["t:1,0", "u", "v:2:3"]) == ([T1, T0, TopicPartition("v", 2)], ["u"])
    for text in ("t:", "t:x", "t:-1"):
        with pytest.raises(ResetFailed, match="For input string"):
            parse_topics([text])


def test_plans_from_files(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_text("t,0,5\n\n t, 1, 6\n")
    assert read_plan(path, ["g"], names_groups=False) == {"g": {T0: 5, T1: 6}}
    path.write_text("g,t,0,5\nother,t,0,7\n")
    assert read_plan(path, ["g", "h"], names_groups=True) == {"g": {T0: 5}}
    assert read_plan(path, ["g"], names_groups=False) == {"g": {T0: 5}}, "as the first line shows"
    for text in ("t,0\n", "t,x,5\n", '"t,0,5\n', '"t"x,0,5\n'):
        path.write_text(text)
        with pytest.raises(ResetFailed, match=r"plan, line 1: expected 3 values"):
            read_plan(path, ["g"], names_groups=False)
    path.write_text("g,t,0,5\nt,0,5\n")
    with pytest.raises(ResetFailed, match=r"plan, line 2: expected 4 values"):
        read_plan(path, ["g"], names_groups=False)
    path.write_text("t,0,-5\n")
    with pytest.raises(ResetFailed, match=r"plan, line 1: Invalid negative offset"):
        read_plan(path, ["g"], names_groups=False)


def test_plans_are_written_with_the_quotes_of_kafkas_tool(tmp_path: Path) -> None:
    long_name = TopicPartition("a-topic-with-a-name-of-more-than-24-characters", 0)
    plans = {"a,b": {long_name: 0}, 'q"q': {T0: 1}, "a b": {T1: 2}, "é": {T1: 3}}
    lines = export_lines(plans, names_groups=True)
    assert lines == [
        '"a,b","a-topic-with-a-name-of-more-than-24-characters",0,0',
        '"q""q",t,0,1',
        '"a b",t,1,2',
        "é,t,1,3",
    ]
    path = tmp_path / "plan"
    path.write_text("\n".join(lines))
    assert read_plan(path, list(plans), names_groups=True) == plans


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("", "Command must include exactly one action"),
        ("--list --delete --group g", 'Option "[group]" can\'t be used with option "[list]"'),
        ("--describe", "Option [describe] takes one of these options: [group], [all-groups]"),
        ("--reset-offsets --group g --topic t", "requires one of the following scenarios"),
        ("--reset-offsets --group g --topic t --to-earliest --shift-by 1",
         'Option "[to-earliest]" can\'t be used with option "[shift-by]"'),
        ("--reset-offsets --group g --to-offset 0 --dry-run",
         "One of the reset scopes should be defined: --all-topics, --topic."),
        ("--reset-offsets --group g --topic t --by-duration 5 --dry-run",
         "Executing consumer group command failed due to Text cannot be parsed to a Duration"),
        ("--list --state Nope", "Invalid state list 'Nope'. Valid states are: "),
    ],
)  # fmt: skip
def test_refused_before_anybody_is_asked(
    capsys: pytest.CaptureFixture[str], arguments: str, reason: str
) -> None:
    code = cli_main.run(["groups", "--bootstrap-server", "127.0.0.1:1", *arguments.split()])
    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert reason in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--list --members --verbose", "Option(s) [members, verbose] are unavailable"),
        ("--delete-offsets --group a --group b --topic t", "multiple arguments for option group"),
        ("--reset-offsets --group a --topic t --to-offset 9223372036854775808", "--to-offset"),
    ],
)
def test_what_is_refused(words: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run(["groups", *words.split()]) == 1
    assert text in capsys.readouterr().err

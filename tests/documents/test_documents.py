"""Nothing that a page tells its reader to do is forgotten: it is run, or it says why not."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from ottla.cli.main import cli
from ottla.client.settings import AdminConfig
from ottla.config.broker import BrokerConfig
from ottla.config.definitions import parse_properties
from tests.support.documents.blocks import (
    ROOT,
    Block,
    blocks,
    commands,
    inline_commands,
    page_text,
    pages,
    untagged_commands,
)
from tests.support.documents.plan import PLANS, left_out
from tests.support.documents.shown_output import first_not_printed

LANGUAGES = {"", "console", "ini", "json", "mermaid", "properties", "python", "sh", "toml", "yaml"}
_MAKE = re.compile(r"(?:`|^)make ([a-z]+)(?=[`\s])", re.MULTILINE)
_FLAG = re.compile(r"(?<!\S)(--?[a-z][a-z.-]*)")


@pytest.mark.parametrize("page", pages())
def test_commands_stand_in_blocks_that_are_run(page: str) -> None:
    text = page_text(page)
    assert list(untagged_commands(text)) == [], "commands in a block without `sh` or `console`"
    found = blocks(text)
    assert {block.language for block in found} <= LANGUAGES
    runs = [block for block in found if block.language in ("console", "sh", "python")]
    assert not runs or page in PLANS, "tests/support/documents/plan.py does not know the page"


def test_what_is_left_out_is_there() -> None:
    for page, plan in PLANS.items():
        there = {found.text for block in blocks(page_text(page)) for found in commands(block)}
        assert set(plan.left_out) <= there, page
        assert not plan.run_by or Path(page).name in (ROOT / plan.run_by).read_text()
        assert {text for text in plan.stays if text not in plan.before} <= there | {
            "ottla up --brokers 3"
        }, page
    assert len(left_out()) < 25


def test_targets_of_make_are_there() -> None:
    named = {target for page in pages() for target in _MAKE.findall(page_text(page))}
    assert {"setup", "test", "wheel"} <= named
    ran = subprocess.run(
        ["make", "-n", *sorted(named)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", pages())
def test_commands_in_the_middle_of_a_sentence_have_these_flags(page: str) -> None:
    wrong = [text for text in inline_commands(page_text(page), "ottla") if not _is_known(text)]
    assert wrong == []


def _is_known(text: str) -> bool:
    command: click.Command | None = cli
    context = click.Context(cli)
    flags = {"--help", "-h", "--version"}
    for word in text.split()[1:]:
        if word.startswith("-") or not isinstance(command, click.Group):
            break
        if not word.isascii() or not word.replace("-", "").isalpha():
            return True  # `ottla pipeline <job>`, `ottla … --command-config FILE`
        command = command.get_command(context, word)
        if command is None:
            return False
    assert command is not None
    for parameter in command.params:
        flags |= {*parameter.opts, *parameter.secondary_opts}
    return set(_FLAG.findall(text.partition(" ")[2])) <= flags


def _blocks(language: str) -> list[object]:
    return [
        pytest.param(block, id=f"{page}:{block.line}")
        for page in pages()
        for block in blocks(page_text(page))
        if block.language == language
    ]


@pytest.mark.parametrize("block", _blocks("json"))
def test_json_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", _blocks("toml"))
def test_toml_is_toml(block: Block) -> None:
    tomllib.loads(block.text)


@pytest.mark.parametrize("block", _blocks("yaml"))
def test_yaml_is_yaml(block: Block) -> None:
    yaml.safe_load(block.text)


@pytest.mark.parametrize("block", _blocks("properties"))
def test_properties_are_taken_by_a_broker_or_by_a_client(block: Block) -> None:
    settings = parse_properties(block.text)
    if "security.protocol" in settings:
        assert AdminConfig.from_properties(settings).credentials is not None
        return
    needed = {"broker.id": "0", "zookeeper.connect": "127.0.0.1:2181"}
    BrokerConfig.from_properties({**needed, **settings})


def test_output_is_compared_but_for_what_is_drawn() -> None:
    shown = ["	Topic: t	Isr: 0,1", "rows 84,000 in 4.64 s"]
    assert first_not_printed(shown, "Topic: t  Isr: 2,0\nmore\nrows 7 in 12.00 s") is None
    assert first_not_printed(shown, "Topic: t  Isr: 2,0,1\nrows 7 in 1.00 s") == shown[0]
    assert first_not_printed(shown, "rows 7 in 1.00 s\nTopic: t  Isr: 2,0") == shown[1]
    assert first_not_printed(["a"], "a b") == "a"
    assert first_not_printed(["a"], "\x1b[1ma\x1b[0m b", on_a_terminal=True) is None
    assert first_not_printed(["id: EU90pM3STQq4HeI_CKdueA"], "id: AAAApM3STQq4HeI_CKdueB") is None
    assert first_not_printed(["2 passed"], "1 failed") == "2 passed"

"""The fenced blocks of a page, the commands in them and the output that the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAMS = (
    *("ottla", "pip", "make", "pytest", "python", ".venv/bin/python", "uv", "spark-pipelines"),
    *("kafka-acls.sh", "kill", "tail", "head", "man", "eval", "echo", "mkdir", "cd", "source"),
    *("export", "curl", "zkCli.sh"),
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}.+\n)+")
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_COMMENT = re.compile(r"\s+#\s.*$")
_FIRST_WORD = re.compile(r"^(?:[A-Z_]+=\S+ )*(\S+)(?: |$)")


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    line: int
    text: str  # without the comment behind it
    shown: tuple[str, ...] = ()  # the output that the page shows


def pages() -> list[str]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(str(page.relative_to(ROOT)) for page in found)


def page_text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    return [
        Block(match[1], text.count("\n", 0, match.start()) + 2, match[2])
        for match in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    """In `console` blocks `$ ` marks a command and the rest is output; in `sh` all are commands."""
    if block.language not in ("console", "sh"):
        return []
    found: list[Command] = []
    lines = enumerate(block.text.splitlines(), block.line)
    for number, line in lines:
        if block.language == "console" and not line.startswith("$ "):
            if not found:
                raise ValueError(f"line {number}: output without a command")
            last = found.pop()
            found.append(Command(last.line, last.text, (*last.shown, line)))
            continue
        text = line.removeprefix("$ ")
        while text.endswith("\\"):
            text = text[:-1].rstrip() + " " + next(lines)[1].strip()
        text = _COMMENT.sub("", text).strip()
        if text and not text.startswith("#"):
            found.append(Command(number, text))
    return found


def untagged_commands(text: str) -> Iterator[int]:
    """Lines of commands in blocks that say no language, or are indented: nothing would run them."""
    fenced = [(block.line, block.text) for block in blocks(text) if not block.language]
    without_fences = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in _INDENTED.finditer(without_fences):
        fenced.append((without_fences.count("\n", 0, match.start()) + 1, match[0]))
    for first, body in fenced:
        for number, line in enumerate(body.splitlines(), first):
            word = _FIRST_WORD.match(line.strip().removeprefix("$ "))
            if word and word[1] in PROGRAMS:
                yield number


def inline_commands(text: str, program: str) -> list[str]:
    """What stands in the middle of a sentence: `ottla events --follow`."""
    prose = _FENCE.sub("", text)
    return [span for span in _INLINE.findall(prose) if span.startswith(f"{program} ")]

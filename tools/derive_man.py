"""`python tools/derive_man.py FOLDER`: a man page for each command, from its own help."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ottla import __version__
from ottla.cli.main import cli


def escaped(text: str) -> str:
    """Text that roff takes for nothing else."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def man_page(name: str, command: click.Command, context: click.Context) -> str:
    summary = (command.help or "").strip().split("\n")[0].rstrip(".")
    usage = " ".join([f"\\fB{escaped(name)}\\fR", *command.collect_usage_pieces(context)])
    lines = [
        f'.TH "{name.upper().replace(" ", "-")}" 1 "" "ottla {__version__}"',
        *(".SH NAME", f"{escaped(name.replace(' ', '-'))} \\- {escaped(summary)}"),
        *(".SH SYNOPSIS", usage),
        *(".SH DESCRIPTION", escaped((command.help or "").strip())),
        ".SH OPTIONS",
    ]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            lines += [".TP", f"\\fB{escaped(record[0])}\\fR", escaped(record[1])]
    return "\n".join(lines) + "\n"


def man_pages() -> dict[str, str]:
    """File name -> text, for `ottla` and all that is below it."""
    pages: dict[str, str] = {}

    def add(name: str, command: click.Command, context: click.Context) -> None:
        pages[name.replace(" ", "-") + ".1"] = man_page(name, command, context)
        if isinstance(command, click.Group):
            for word in command.list_commands(context):
                below = command.get_command(context, word)
                if below is not None:
                    add(f"{name} {word}", below, click.Context(below, context, word))

    add("ottla", cli, click.Context(cli, info_name="ottla"))
    return pages


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in man_pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

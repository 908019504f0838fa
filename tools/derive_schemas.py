"""Derive the compact schema files from a kafka-clients jar.

Usage: python tools/derive_schemas.py <kafka-clients-3.9.x.jar> src/ottla/wire/schemas

Only facts are taken over: names, types, version ranges, tags and defaults. Schemas that no client
jar carries (the coordinators' records) are written by hand and are left alone. The typed stub
`messages.pyi` beside the output folder is made from all schema files afterwards.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

from derive_stub import write_stub

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
# Controller and quorum records of KRaft: no broker in ZooKeeper mode reads or writes them.
_SKIPPED = {
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
}


def load_messages(jar: Path) -> dict[str, dict[str, Any]]:
    """Every message definition of the jar by its name."""
    messages = {}
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.namelist():
            if entry.startswith("common/message/") and entry.endswith(".json"):
                text = archive.read(entry).decode("utf-8")
                message = json.loads(_COMMENT.sub("", text))
                messages[message["name"]] = message
    if not messages:
        raise SystemExit(f"{jar}: no message definitions inside")
    return messages


def compact_default(value: object) -> str:
    """A default as one word: JSON has it as text, number or boolean."""
    text = json.dumps(value) if isinstance(value, bool) else str(value)
    if text.startswith("0x"):
        return str(int(text, 16))
    return text if text else '""'


def field_lines(field: dict[str, Any], depth: int) -> list[str]:
    words = [field["name"][0].upper() + field["name"][1:], field["type"], field["versions"]]
    if field.get("nullableVersions", "none") != "none":
        words += ["null", field["nullableVersions"]]
    if "tag" in field:
        words += ["tag", str(field["tag"]), field["taggedVersions"]]
    if "default" in field:
        words += ["default", compact_default(field["default"])]
    if "flexibleVersions" in field:
        words += ["flexible", field["flexibleVersions"]]
    if field.get("ignorable"):
        words.append("ignorable")
    lines = ["  " * depth + " ".join(words)]
    for child in field.get("fields", []):
        lines += field_lines(child, depth + 1)
    return lines


def message_lines(message: dict[str, Any], unstable: bool) -> list[str]:
    words = [message["type"], message["name"], message["validVersions"]]
    if "apiKey" in message:
        words += ["key", str(message["apiKey"])]
    if message.get("flexibleVersions", "none") != "none":
        words += ["flexible", message["flexibleVersions"]]
    if unstable:
        words.append("unstable")
    lines = [" ".join(words)]
    for struct in message.get("commonStructs", []):
        lines.append(f"  struct {struct['name']} {struct['versions']}")
        for field in struct["fields"]:
            lines += field_lines(field, 2)
    for field in message["fields"]:
        lines += field_lines(field, 1)
    return lines


def schema_files(messages: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """File stem -> lines; a request and its response share one file."""
    files: dict[str, list[str]] = {}
    for name in sorted(messages):
        message = messages[name]
        if name in _SKIPPED or name.endswith("Response"):
            continue
        if message["type"] != "request":
            files[name] = message_lines(message, unstable=False)
            continue
        stem = name.removesuffix("Request")
        unstable = bool(message.get("latestVersionUnstable", False))
        files[stem] = message_lines(message, unstable)
        files[stem] += message_lines(messages[stem + "Response"], unstable)
    # Of the headers only one is named *Response*-something.
    files["ResponseHeader"] = message_lines(messages["ResponseHeader"], unstable=False)
    return files


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jar", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    messages = load_messages(options.jar)
    options.folder.mkdir(parents=True, exist_ok=True)
    for stem, lines in schema_files(messages).items():
        (options.folder / f"{stem}.schema").write_text("\n".join(lines) + "\n", encoding="utf-8")
    keys = {m["apiKey"]: m["name"] for m in messages.values() if m["type"] == "request"}
    index = [f"{key} {keys[key].removesuffix('Request')}" for key in sorted(keys)]
    (options.folder / "api_keys.index").write_text("\n".join(index) + "\n", encoding="utf-8")
    write_stub(options.folder, options.folder.parent / "messages.pyi")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Foreign text in log lines and on terminals: a name with a line feed in it forges no line, one
with an escape sequence moves no cursor."""

from __future__ import annotations

import re

# Control characters, Unicode's line separators, what turns the direction of text, and halves of
# characters, which no file takes.
_HARMFUL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_HARMFUL}]")
_IN_LINE = re.compile(f"[{_HARMFUL}\n]")
_SHORT = {"\n": "\\n", "\r": "\\r"}


def one_line(text: str) -> str:
    """As Python writes such characters in its own strings; tabs stay."""
    if text.isascii() and text.isprintable():
        # Nearly every line: a failover writes tens of thousands.
        return text
    return _IN_LINE.sub(_escaped, text) if _IN_LINE.search(text) else text


def escaped(text: str) -> str:
    """The same for text of several lines, which stay lines."""
    return _IN_TEXT.sub(_escaped, text) if _IN_TEXT.search(text) else text


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")

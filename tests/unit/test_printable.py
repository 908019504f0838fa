"""Foreign text where it could do harm."""

from __future__ import annotations

from ottla.printable import escaped, one_line


def test_lines_and_escape_sequences() -> None:
    assert one_line("clicks-0\tä ✓") == "clicks-0\tä ✓"
    assert one_line("a\nb\r\x1b[31m\x00\x7f\x9b\x85") == ("a\\nb\\r\\x1b[31m\\x00\\x7f\\x9b\\x85")
    assert one_line("\u2028\u2029\u202e\u2066\ud800") == ("\\u2028\\u2029\\u202e\\u2066\\ud800")
    assert escaped("a\nb\x1bc\tä") == "a\nb\\x1bc\tä"
    for text in (one_line("".join(map(chr, range(0x10000)))),):
        assert len(text.splitlines()) == 1
        text.encode()

"""Java's regular expressions, as Spark's Kafka connector takes them, in Python's.

Most patterns are the same in both; some mean other things without a word (`\\Z`, `[a-z&&[^x]]`,
`{,3}`), and others are refused by one. A topic's name has ASCII letters, digits, `.`, `_` and `-`
only, so a set of characters is worked out here and written as a plain list of ASCII. What cannot be
carried over, or what Java's own releases disagree about, is refused. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

Chars = frozenset[str]

ASCII = frozenset(map(chr, range(128)))
_DIGITS = frozenset("0123456789")
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LETTERS = _LOWER | _UPPER
_WORD = _LETTERS | _DIGITS | {"_"}
_SPACE = frozenset(" \t\n\x0b\f\r")
_CONTROL = frozenset(map(chr, (*range(32), 127)))
_GRAPH = ASCII - _CONTROL - {" "}
_NEVER = "[^\\x00-\\U0010ffff]"
_SETS = {
    "d": _DIGITS,
    "w": _WORD,
    "s": _SPACE,
    "h": frozenset(" \t"),
    "v": frozenset("\n\x0b\f\r"),
}
_SETS |= {name.upper(): ASCII - chars for name, chars in _SETS.items()}
_CHARS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS = {"b": "\\b", "B": "\\B", "A": "\\A", "z": "\\Z", "Z": "\\Z"}
_PROPERTIES = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ASCII,
    "Alpha": _LETTERS,
    "Digit": _DIGITS,
    "Alnum": _LETTERS | _DIGITS,
    "Punct": _GRAPH - _LETTERS - _DIGITS,
    "Graph": _GRAPH,
    "Print": _GRAPH | {" "},
    "Blank": frozenset(" \t"),
    "Cntrl": _CONTROL,
    "XDigit": _DIGITS | frozenset("abcdefABCDEF"),
    "Space": _SPACE,
    "javaLowerCase": _LOWER,
    "javaUpperCase": _UPPER,
    "javaAlphabetic": _LETTERS,
    "javaLetter": _LETTERS,
    "javaDigit": _DIGITS,
    "javaLetterOrDigit": _LETTERS | _DIGITS,
    "IsAlphabetic": _LETTERS,
    "IsLetter": _LETTERS,
    "IsLowercase": _LOWER,
    "IsUppercase": _UPPER,
    "IsDigit": _DIGITS,
    "IsLatin": _LETTERS,
    "InBasicLatin": ASCII,
    "InBasic_Latin": ASCII,
}
# Of ASCII's characters; in the others there is none.
_CATEGORIES = frozenset(unicodedata.category(char) for char in ASCII)
_CATEGORIES |= {category[0] for category in _CATEGORIES}
# With (?i) the releases of Java differ in what these are.
_CASED = frozenset(
    {"Lower", "Upper", "javaLowerCase", "javaUpperCase", "IsLowercase", "IsUppercase", "Lu", "Ll"}
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?")
_GROUP_NAME = re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS = re.compile(r"\?([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})")
_OCTAL = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})")
_PASSED_ON = ("?:", "?=", "?!", "?<=", "?<!", "?>")
_LAST_CHAR = 0x10FFFF


class PatternError(ValueError):
    """What the pattern has that cannot be taken over, in words."""


def translate(pattern: str) -> str:
    """For `re.fullmatch` on names of topics; raises PatternError."""
    parser = _Parser(_without_quotes(pattern))
    try:
        translated = "(?a)" + parser.alternatives(_Flags())
        if parser.peek():
            raise PatternError("there is a ) without its (")
        re.compile(translated)
    except RecursionError:
        raise PatternError("groups are nested too deeply") from None
    except (re.error, OverflowError) as error:
        raise PatternError(str(error)) from None
    return translated


def _without_quotes(pattern: str) -> str:
    """What is between \\Q and \\E stands for itself."""
    found, position = [], 0
    while position < len(pattern):
        pair = pattern[position : position + 2]
        if pair == "\\Q":
            end = pattern.find("\\E", position + 2)
            quoted = pattern[position + 2 : end if end >= 0 else len(pattern)]
            found += [f"\\x{{{ord(char):x}}}" for char in quoted]
            position = end + 2 if end >= 0 else len(pattern)
            continue
        found.append(pair if pair.startswith("\\") else pair[:1])
        position += len(found[-1])
    return "".join(found)


@dataclass(slots=True)
class _Flags:
    ignore_case: bool = False
    unicode_case: bool = False


class _Parser:
    """Reads from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._groups = 0

    def peek(self, count: int = 1) -> str:
        return self._text[self._position : self._position + count]

    def alternatives(self, flags: _Flags) -> str:
        """Up to the end of the group. Flags that are set here hold until there, in the
        alternatives to the right as well."""
        flags = _Flags(flags.ignore_case, flags.unicode_case)
        found = []
        while self.peek() not in ("", ")"):
            if self._takes("|"):
                found.append("|")
                continue
            atom = self._atom(flags)
            if atom and (quantifier := self._matches(_QUANTIFIER)):
                atom += quantifier[0]
                if self.peek() in ("*", "+", "?", "{"):
                    raise PatternError(f"{self.peek()} follows a quantifier")
            found.append(atom)
        return "".join(found)

    def _takes(self, text: str) -> bool:
        if not self._text.startswith(text, self._position):
            return False
        self._position += len(text)
        return True

    def _matches(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self._text, self._position)
        if found:
            self._position = found.end()
        return found

    def _next(self) -> str:
        char = self.peek()
        if not char:
            raise PatternError("it ends too early")
        self._position += 1
        return char

    def _atom(self, flags: _Flags) -> str:
        char = self._next()
        if char == "(":
            return self._group(flags)
        if char == "[":
            return _written(self._class(flags))
        if char == "\\":
            return self._escape(flags)
        if char in "*+?":
            raise PatternError(f"there is nothing before {char}")
        if char == "{":
            raise PatternError("{ is not a repetition here; \\{ is the character")
        if char in ".^$":
            return {".": ".", "^": "\\A", "$": "\\Z"}[char]
        return _written(_with_case({char}, flags))

    def _group(self, flags: _Flags) -> str:
        for opening in _PASSED_ON:
            if self._takes(opening):
                return self._closed(f"({opening}", flags)
        if name := self._matches(_GROUP_NAME):
            self._groups += 1
            return self._closed(f"(?P<{name[1]}>", flags)
        if found := self._matches(_FLAGS):
            changed = _changed(flags, found[1], found[2] or "")
            if found[3] == ":":
                return self._closed("(?:", changed)
            flags.ignore_case, flags.unicode_case = changed.ignore_case, changed.unicode_case
            return ""
        if self.peek() == "?":
            raise PatternError(f"({self.peek(3)} is not known to Java")
        self._groups += 1
        return self._closed("(", flags)

    def _closed(self, opening: str, flags: _Flags) -> str:
        inside = self.alternatives(flags)
        if not self._takes(")"):
            raise PatternError("there is a ( without its )")
        return f"{opening}{inside})"

    def _escape(self, flags: _Flags) -> str:
        following = self.peek()
        if following in _ANCHORS:
            self._next()
            if self.peek() == "{":
                raise PatternError(f"\\{following}{{ cannot be translated")
            return _ANCHORS[following]
        if following in _DIGITS - {"0"}:
            return self._reference(flags)
        if self._takes("k"):
            if not (name := self._matches(re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>"))):
                raise PatternError("\\k names no group")
            return _reference_to(f"(?P={name[1]})", flags)
        return _written(self._escaped_chars(flags))

    def _reference(self, flags: _Flags) -> str:
        """As many digits as there are groups for, as Java reads it."""
        number = int(self._next())
        while self.peek() in _DIGITS and int(f"{number}{self.peek()}") <= self._groups:
            number = int(f"{number}{self._next()}")
        return _reference_to(f"(?:\\{number})", flags)

    def _escaped_chars(self, flags: _Flags) -> Chars:
        """The characters that an escape stands for, also inside brackets."""
        if self.peek() in ("p", "P"):
            return self._property(flags)
        if self.peek() in _SETS:
            return _SETS[self._next()]
        return _with_case({self._escaped_char()}, flags)

    def _escaped_char(self) -> str:
        if found := self._matches(_HEX):
            code = int(found[1] or found[2] or found[3], 16)
            if code > _LAST_CHAR:
                raise PatternError(f"\\{found[0]} is no character")
            return chr(code)
        if found := self._matches(_OCTAL):
            return chr(int(found[1], 8))
        char = self._next()
        if char == "c":
            return chr(ord(self._next()) ^ 64)
        if char in _CHARS:
            return _CHARS[char]
        if char.isascii() and char.isalnum():
            raise PatternError(f"\\{char} cannot be translated")
        return char

    def _property(self, flags: _Flags) -> Chars:
        negated = self._next() == "P"
        if self._takes("{"):
            end = self._text.find("}", self._position)
            if end < 0:
                raise PatternError("\\p{ is not closed")
            name = self._text[self._position : end]
            self._position = end + 1
        else:
            name = self._next()
        for prefix in ("general_category=", "gc=", "Is"):
            if name.removeprefix(prefix) in _CATEGORIES:
                name = name.removeprefix(prefix)
        if flags.ignore_case and name in _CASED:
            raise PatternError(f"\\p{{{name}}} with (?i) is not the same in every Java")
        if name in _CATEGORIES:
            chars = frozenset(c for c in ASCII if unicodedata.category(c).startswith(name))
        elif name in _PROPERTIES:
            chars = _PROPERTIES[name]
        else:
            raise PatternError(f"\\p{{{name}}} cannot be translated")
        return ASCII - chars if negated else chars

    def _class(self, flags: _Flags) -> Chars:
        """After the [. Where Java's rules for what is nested are hard to tell, it is refused."""
        negated = self._takes("^")
        if self.peek() == "]":
            raise PatternError("] directly after [ must be written \\]")
        operands: list[Chars] = [frozenset()]
        nested = [0]
        items = [0]
        while not self._takes("]"):
            if self._takes("&&"):
                operands.append(frozenset())
                nested.append(0)
                items.append(0)
                continue
            items[-1] += 1
            if self._takes("["):
                nested[-1] += 1
                operands[-1] |= self._class(flags)
            else:
                operands[-1] |= self._class_item(flags)
        if len(operands) > 1:
            mixed = any(inner and inner < all_ for inner, all_ in zip(nested, items, strict=True))
            if negated or mixed or not all(items):
                raise PatternError("this use of && cannot be translated; put each side in [ ]")
        elif negated and nested[0]:
            raise PatternError("[^ with a [ inside it cannot be translated")
        found = frozenset.intersection(*operands)
        return ASCII - found if negated else found

    def _class_item(self, flags: _Flags) -> Chars:
        """One character, a range, or what an escape stands for."""
        first = self._next()
        if first == "\\":
            if self.peek() in ("p", "P", *_SETS):
                return self._escaped_chars(flags)
            first = self._escaped_char()
        ahead = self.peek(2)
        if len(ahead) < 2 or ahead[0] != "-" or ahead[1] in "[]":
            return _with_case({first}, flags)
        self._next()
        last = self._next()
        if last == "\\":
            if self.peek() in ("p", "P", *_SETS):
                raise PatternError(f"{first}- does not end in a character")
            last = self._escaped_char()
        if last < first:
            raise PatternError(f"{first}-{last} is not in order")
        if flags.unicode_case and not last.isascii():
            raise PatternError("(?u) with other than ASCII characters cannot be translated")
        return _with_case({c for c in ASCII if first <= c <= last}, flags)


def _changed(flags: _Flags, on: str, off: str) -> _Flags:
    """d, m and s are about line breaks, which no name has."""
    if "x" in on:
        raise PatternError("(?x) cannot be translated")
    unicode_case = (flags.unicode_case or "u" in on or "U" in on) and "u" not in off
    return _Flags((flags.ignore_case or "i" in on) and "i" not in off, unicode_case)


def _reference_to(group: str, flags: _Flags) -> str:
    return f"(?i:{group})" if flags.ignore_case else group


def _with_case(chars: set[str], flags: _Flags) -> Chars:
    """Java's (?i) is about ASCII alone, unless it is told otherwise."""
    if flags.unicode_case and not all(map(str.isascii, chars)):
        raise PatternError("(?u) with other than ASCII characters cannot be translated")
    if not flags.ignore_case:
        return frozenset(chars)
    return frozenset(chars) | {c.swapcase() for c in chars & _LETTERS}


def _written(chars: Chars) -> str:
    ascii_chars = sorted(c for c in chars if c.isascii())
    if not ascii_chars:
        return _NEVER
    if len(ascii_chars) == 1:
        return re.escape(ascii_chars[0])
    return f"[{''.join(map(re.escape, ascii_chars))}]"

"""Values that a pipeline file takes from elsewhere, and that nobody is to see in what it says.

`${NAME}` is a variable of the environment, `${file:/path}` what a file holds, without the line's
end; `$${` is `${` itself. They stand in values, not in names, and are filled in after the file was
read as YAML: what comes from outside is never read as a part of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ottla.pipelines.spec_keys import SpecError

MAX_SECRET_BYTES = 1_000_000
# Shorter ones stand in too many words to be looked for.
_LEAST_CHARS = 4
_FILE = "file:"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")


class Filled(str):
    """Text with something filled in; `shown` is how the file says it, and how it shows itself."""

    __slots__ = ("shown",)
    shown: str

    def __repr__(self) -> str:
        return repr(self.shown)

    @classmethod
    def of(cls, text: str, shown: str) -> Filled:
        made = cls(text)
        made.shown = shown
        return made


class Secrets(NamedTuple):
    """What must not be shown, with what stands for it; the longest first."""

    values: tuple[tuple[str, str], ...] = ()
    # Names of settings whose values hold such a one.
    settings: tuple[str, ...] = ()

    def hide(self, text: str) -> str:
        for value, shown in self.values:
            text = text.replace(value, shown)
        return text


NO_SECRETS = Secrets()


class References:
    """Fills in what a file refers to, and remembers what was filled in where."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = environment
        self._folder = folder
        self._secrets: dict[str, str] = {}
        self._settings: set[str] = set()

    def fill(self, value: Any, where: str, *, in_settings: bool = False) -> Any:
        """The value with all references in it filled in; raises SpecError that names the key."""
        if isinstance(value, str):
            return self._fill_text(value, where, in_settings)
        if isinstance(value, list):
            return [
                self.fill(item, f"{where}[{number}]", in_settings=in_settings)
                for number, item in enumerate(value, 1)
            ]
        if isinstance(value, dict):
            return self._fill_names(value, where, in_settings)
        return value

    def _fill_names(self, value: dict[Any, Any], where: str, in_settings: bool) -> dict[Any, Any]:
        filled = {}
        for name, content in value.items():
            is_setting = in_settings or name in _SETTINGS
            filled[name] = self.fill(content, _join(where, name), in_settings=is_setting)
            if in_settings and isinstance(filled[name], Filled):
                self._settings.add(str(name))
        return filled

    def _fill_text(self, text: str, where: str, in_settings: bool) -> str:
        if "${" not in text:
            return text
        found: list[str] = []

        def replaced(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            if match[1] is None:
                raise SpecError(f"{where}: '${{' is never closed; '$${{' stands for itself")
            value = self._look_up(match[1].strip(), where)
            found.append(value)
            if (in_settings or match[1].startswith(_FILE)) and len(value) >= _LEAST_CHARS:
                self._secrets[value] = match[0]
            return value

        filled = _REFERENCE.sub(replaced, text)
        return Filled.of(filled, text) if found else filled

    def _look_up(self, reference: str, where: str) -> str:
        if reference.startswith(_FILE):
            return self._read(reference.removeprefix(_FILE), where)
        if not _NAME.fullmatch(reference):
            raise SpecError(
                f"{where}: ${{{reference}}} is neither a variable's name nor file:/path; "
                "'$${' stands for '${'"
            )
        if reference not in self._environment:
            raise SpecError(f"{where}: the environment has no variable {reference}")
        return self._environment[reference]

    def _read(self, name: str, where: str) -> str:
        path = self._folder / name
        try:
            with path.open("rb") as file:
                data = file.read(MAX_SECRET_BYTES + 1)
            text = data.decode()
        except OSError as error:
            raise SpecError(f"{where}: {path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SpecError(f"{where}: {path} does not hold UTF-8 text") from None
        if len(data) > MAX_SECRET_BYTES:
            raise SpecError(f"{where}: {path} holds over {MAX_SECRET_BYTES} bytes")
        return text.removesuffix("\n").removesuffix("\r")

    def secrets(self) -> Secrets:
        longest_first = sorted(self._secrets.items(), key=lambda item: -len(item[0]))
        return Secrets(tuple(longest_first), tuple(sorted(self._settings)))


_SETTINGS = ("kafka", "to_kafka", "spark", "options")


def _join(where: str, name: Any) -> str:
    return f"{where}.{name}" if where else str(name)

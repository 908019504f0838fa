"""Which form is in force, and that hostile bytes are nothing to native code."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.wire import native, records
from ottla.wire.records import HEADER_BYTES, Record
from tests.support.native import native_code
from tests.support.peers.batch_lies import record

_SAYS = "from ottla.wire import native; print(native.code is None, native.in_force())"


def _said(folder: Path, package: str | None, **environment: str) -> tuple[str, str]:
    """What a process says that finds this package first."""
    if package is not None:
        (folder / "ottla_native.py").write_text(package)
    source = str(Path(native.__file__).parents[2])
    run = subprocess.run(
        [sys.executable, "-c", _SAYS],
        env={"PYTHONPATH": f"{folder}:{source}", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip(), run.stderr.strip()


_GOOD = f"FORM, __version__ = {native.FORM}, '9.9'"


@pytest.mark.parametrize(
    ("package", "environment", "said", "warned"),
    [
        (_GOOD, {}, "False native code (ottla_native 9.9)", ""),
        (_GOOD, {"OTTLA_NATIVE": "1"}, "False native code (ottla_native 9.9)", ""),
        (_GOOD, {"OTTLA_NATIVE": "0"}, "True pure Python (OTTLA_NATIVE=0)", ""),
        (
            "raise ModuleNotFoundError('no')",
            {},
            "True pure Python (ottla_native is not installed)",
            "",
        ),
        (
            "raise ImportError('wrong ELF class')",
            {},
            "True pure Python (ottla_native cannot be loaded)",
            "ottla_native cannot be loaded, pure Python takes its place: wrong ELF class",
        ),
        (
            "FORM, __version__ = 0, '0.0'",
            {},
            f"True pure Python (ottla_native has interface 0, not {native.FORM})",
            f"ottla_native has interface 0, {native.FORM} is needed: pure Python takes its place "
            "until the two are installed together",
        ),
    ],
)
def test_what_is_in_force(
    tmp_path: Path, package: str, environment: dict[str, str], said: str, warned: str
) -> None:
    assert _said(tmp_path, package, **environment) == (said, warned)


def test_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "code", None)
    assert native.paced(100) == 100
    monkeypatch.setattr(native, "code", object())
    assert native.paced(100) > 100


def _some_plain(chance: random.Random, count: int) -> bytearray:
    items = [
        Record(
            chance.choice([None, b"key"]),
            chance.randbytes(chance.randrange(30)),
            chance.randrange(1 << 40),
            [("name", b"value"), ("other", None)] if chance.random() < 0.3 else [],
        )
        for _ in range(count)
    ]
    return bytearray(records.build_batch(items)[HEADER_BYTES:])


def _damage(chance: random.Random, plain: bytearray) -> bytes:
    for _ in range(chance.choice([1, 1, 2, 5])):
        plain[chance.randrange(len(plain))] = chance.choice([0, 1, 127, 128, 255, 64])
    if chance.random() < 0.1:
        del plain[chance.randrange(len(plain)) :]
    return bytes(plain)


def _all_of_it(code: Any, plain: bytes, count: int) -> int:
    walk = code.RecordWalk(plain, count, -(1 << 63))
    state: int = walk.advance(1 << 40)
    assert state in (1, -1)
    code.holds(plain, 0, count, (1 << 62, 0), True, 1 << 40)
    for wanted in ((True, True, True), (True, True, False), (False, False, True)):
        found = code.decode([(plain, max(0, count))], wanted)
        if found is not None:
            assert len(found[0]) == 8 * count
            assert tuple(column is not None for column in found[2:]) == wanted
            assert found[3] is None or len(found[3][2]) <= len(plain)
    return state


def test_thirty_thousand_damaged_batches() -> None:
    """No panic, no hang: each is refused or read."""
    code = native_code()
    chance = random.Random(15)
    states = set()
    for _ in range(300):
        count = chance.choice([1, 2, 5])
        plain = _some_plain(chance, count)
        for _ in range(100):
            damaged = _damage(chance, bytearray(plain))
            states.add(_all_of_it(code, damaged, count + chance.choice([0, 0, 1, -1])))
    assert states == {1, -1}


@pytest.mark.parametrize("size", [0, 1, 7, 8, 61, 1 << 16])
@pytest.mark.parametrize("byte", [0, 1, 2, 127, 128, 255])
def test_one_byte_again_and_again(byte: int, size: int) -> None:
    code = native_code()
    for count in (0, 1, size // 7, size, 1 << 31, (1 << 63) - 1):
        _all_of_it(code, bytes((byte,)) * size, count)


def test_buffers_that_lie_about_their_columns() -> None:
    """Bounds that go down, past the data or are cut are refused, not followed."""
    code = native_code()
    longs = bytes(16)

    def int32s(*numbers: int) -> bytes:
        return b"".join(number.to_bytes(4, sys.byteorder, signed=True) for number in numbers)

    good = (None, int32s(0, 1, 2), b"ab", 0)
    for bad in (
        (None, int32s(0, 5, 2), b"ab", 0),
        (None, int32s(0, 1, 3), b"ab", 0),
        (None, int32s(0, -1, 2), b"ab", 0),
        (None, int32s(0, 1), b"ab", 0),
        (None, int32s(0, 1, 2), b"ab", (1 << 64) - 1),
        (b"", int32s(0, 1, 2), b"ab", 0),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            code.encode_records(longs, longs, None, bad, None, 100)
        with pytest.raises(ValueError, match="do not fit"):
            code.encode_records(longs, longs, bad, good, None, 100)
        with pytest.raises(ValueError, match="do not fit"):
            code.murmur2_of_all(bad, 2)
        with pytest.raises(ValueError, match="do not fit"):
            code.encode_headers((1).to_bytes(8, sys.byteorder) * 2, bad, bad)
    for partitions in (b"\xff" * 8, (code.MOST_PARTITIONS).to_bytes(8, sys.byteorder), bytes(24)):
        with pytest.raises(ValueError, match="do not fit"):
            code.encode_records(partitions, longs, None, good, None, 100)
    with pytest.raises(ValueError, match="do not fit"):
        code.encode_records(longs, longs, None, good, None, 0)


def test_chunks_are_read_only_and_outlive_what_made_them() -> None:
    code = native_code()
    plain = bytes(_some_plain(random.Random(1), 3))
    found = code.decode([(plain, 3)], (True, True, False))
    view = memoryview(found[0])
    del found
    assert view.readonly and len(view) == 24
    with pytest.raises(TypeError):
        view[0] = 1


@pytest.fixture
def patient_threads() -> Iterator[None]:
    """Nobody takes the interpreter from a thread that does not let go of it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.usefixtures("patient_threads")
@pytest.mark.parametrize("work", ["walk", "decode"])
def test_others_run_beside_work_on_many_bytes(work: str) -> None:
    """A batch that unpacks to megabytes is walked in a thread beside the event loop."""
    code = native_code()
    count = 500_000
    plain = record(0) * count

    def run() -> None:
        if work == "walk":
            code.RecordWalk(plain, count, 0).advance(count)
        else:
            code.decode([(plain, count)], (True, True, False))
        done.append(True)

    # On a busy machine this thread may come back only when the other is done: one time is enough.
    for _ in range(50):
        done: list[bool] = []
        thread = threading.Thread(target=run)
        thread.start()
        was_beside = not done
        thread.join()
        if was_beside:
            return
    raise AssertionError("the interpreter was held all the time")

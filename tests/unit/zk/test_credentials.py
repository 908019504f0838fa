"""Files with the credentials for a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.zk.credentials import BadCredentials, digest_credentials, read_digest


def written(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_one_line(tmp_path: Path) -> None:
    file = written(tmp_path / "digest", b"ottla:se:cret\n")
    assert read_digest(file) == b"ottla:se:cret"
    assert digest_credentials(file) == [("digest", b"ottla:se:cret")]
    assert digest_credentials(None) == []


@pytest.mark.parametrize("data", [b"", b"secret", b":secret", b"ottla:", b"a:b\nc:d", b"a:" * 4000])
def test_anything_else_is_refused_and_not_repeated(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadCredentials) as raised:
        read_digest(written(tmp_path / "digest", data))
    assert str(raised.value) == f"{tmp_path}/digest must hold one line, user:password"


def test_others_can_read_it(tmp_path: Path) -> None:
    with pytest.raises(BadCredentials, match="chmod 600"):
        read_digest(written(tmp_path / "digest", b"a:b", 0o640))
    with pytest.raises(BadCredentials, match="No such file"):
        read_digest(tmp_path / "none")

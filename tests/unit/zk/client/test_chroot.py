"""Paths below a chroot."""

from __future__ import annotations

import pytest

from ottla.metadata.store import BadArgumentsError
from ottla.zk.client.chroot import Chroot


def test_paths_below_a_chroot_and_back() -> None:
    chroot = Chroot("/some/where")
    assert chroot.full("/") == "/some/where"
    assert chroot.full("/a/b") == "/some/where/a/b"
    assert chroot.stripped("/some/where/a/b") == "/a/b"
    assert chroot.stripped("/some/where") == "/"
    assert chroot.nodes() == ["/some", "/some/where"]


def test_without_a_chroot_paths_stay() -> None:
    chroot = Chroot("")
    assert chroot.full("/a") == chroot.stripped("/a") == "/a"
    assert chroot.nodes() == []


def test_a_bad_path_is_refused_unless_its_number_makes_it_good() -> None:
    chroot = Chroot("/x")
    with pytest.raises(BadArgumentsError):
        chroot.full("/a/")
    assert chroot.full("/a/", is_sequential=True) == "/x/a/"

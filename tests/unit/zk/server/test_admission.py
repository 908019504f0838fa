"""How many connections there may be."""

from __future__ import annotations

from ottla.zk.server.admission import Admission


def test_an_address_has_its_own_limit():
    admission = Admission(total=10, of_one=2)
    assert admission.admit("a") is None
    assert admission.admit("a") is None
    assert admission.admit("a") == "a has 2 connections, which is the limit (maxClientCnxns)"
    assert admission.admit("b") is None
    admission.release("a")
    assert admission.admit("a") is None


def test_there_is_a_limit_for_all():
    admission = Admission(total=3, of_one=0)
    assert [admission.admit("a") for _ in range(3)] == [None] * 3
    assert admission.admit("b") == "3 connections are open, which is the limit"
    admission.release("a")
    assert admission.admit("b") is None

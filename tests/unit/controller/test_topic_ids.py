"""Ids by names and names by ids stay in step."""

from __future__ import annotations

from ottla.controller.topic_ids import TopicIds


def test_both_ways() -> None:
    ids = TopicIds()
    ids["a"] = b"1" * 16
    ids.setdefault("a", b"2" * 16)
    assert (ids["a"], ids.name_of(b"1" * 16), ids.name_of(b"2" * 16)) == (b"1" * 16, "a", None)
    assert (dict(ids), len(ids)) == ({"a": b"1" * 16}, 1)
    assert ids.pop("a") == b"1" * 16 and ids.name_of(b"1" * 16) is None


def test_a_topic_that_has_its_new_name_before_the_old_one_goes() -> None:
    ids = TopicIds()
    ids["old"] = ids["new"] = b"1" * 16
    del ids["old"]
    assert ids.name_of(b"1" * 16) == "new"

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode, KafkaError
from ottla.topics import names
from ottla.topics.names import TopicNames

ILLEGAL = (
    "Topic name \"{}\" is illegal, it contains a character other than ASCII alphanumerics, '.', "
    "'_' and '-'"
)


@pytest.mark.parametrize("name", ["a", "A-Z_0.9", "...", "__consumer_offsets", "x" * 249, "-"])
def test_legal_names_pass(name: str) -> None:
    names.validate(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "Topic name is illegal, it can't be empty"),
        (".", 'Topic name cannot be "." or ".."'),
        ("..", 'Topic name cannot be "." or ".."'),
        (
            "x" * 250,
            "Topic name is illegal, it can't be longer than 249 characters, topic name: "
            + "x" * 250,
        ),
        ("a/b", ILLEGAL.format("a/b")),
        ("../../x", ILLEGAL.format("../../x")),
        ("a\0", ILLEGAL.format("a\0")),
        ("a\n", ILLEGAL.format("a\n")),
        ("é", ILLEGAL.format("é")),
        ("١", ILLEGAL.format("١")),
        ("a b", ILLEGAL.format("a b")),
    ],
)
def test_illegal_names_have_kafkas_text(name: str, text: str) -> None:
    with pytest.raises(KafkaError) as caught:
        names.validate(name)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def test_internal_topics_are_exactly_two() -> None:
    assert {"__consumer_offsets", "__transaction_state"} == names.INTERNAL_TOPICS
    assert names.is_internal("__consumer_offsets") and not names.is_internal("__ottla_lifecycle")


def test_collisions() -> None:
    assert names.has_collision_chars("a.b") and names.has_collision_chars("a_b")
    assert not names.has_collision_chars("a-b")
    assert names.collides("a.b_c", "a_b.c") and not names.collides("a.b", "a-b")


def test_colliding_names_are_found_also_after_additions() -> None:
    known = TopicNames(["a_b", "ab", "a-b"])
    assert known.colliding_with("a.b") == ["a_b"]
    known.add("x.y")
    known.add("x.y")
    assert known.colliding_with("x_y") == ["x.y"]
    assert known.colliding_with("x.y") == []
    assert known.colliding_with("ab") == []
    assert len(known) == 4 and "x.y" in known and sorted(known)[0] == "a-b"


@given(st.sets(st.text(alphabet="ab._", min_size=1, max_size=4)), st.text("ab._", min_size=1))
def test_lookup_agrees_with_search(known: set[str], name: str) -> None:
    searched = sorted(n for n in known if n != name and names.collides(n, name))
    assert TopicNames(known).colliding_with(name) == searched


def test_shadows_name_the_id_of_their_topic() -> None:
    topic_id = bytes(range(16))
    assert names.shadowed_id(names.shadow_name(topic_id, 1794884113336)) == topic_id
    for other in ("__ottla_resize.", "__ottla_resize.x.1", "__ottla_resize.AAAA", "t", ""):
        assert names.shadowed_id(other) is None

"""Where tasks keep their notes and look for them."""

from ottla.spark.sink.places import Lookup, Places, Slot


def test_a_task_has_its_partition_or_a_group_of_its_own():
    places = Places("q", 3)
    assert places.slot("t", 4) == Slot("ottla-sink-q", "t", 3)
    assert places.slot("t", 3) == Slot("ottla-sink-q-3", "t", 0)
    assert all(places.is_own(places.slot("t", count)) for count in (1, 4))
    assert not places.is_own(Slot("ottla-sink-q", "t", 0))
    assert not places.is_own(Slot("ottla-sink-q-33", "t", 0))


def test_a_task_looks_in_both_places_and_at_all_others():
    places = Places("q", 2)
    shared, apart = places.lookups("t", 5)
    assert (shared.group, apart) == ("ottla-sink-q", Lookup("ottla-sink-q-2", {"t": [0]}))
    assert list(shared.topics["t"]) == [0, 1, 2, 3, 4]
    # A topic that was made again with fewer partitions.
    assert list(places.lookups("t", 1)[0].topics["t"]) == [0, 1, 2]


def test_where_rows_say_where_they_go_every_topic_counts():
    places = Places("q", 2)
    named, shared, apart = places.lookups_anywhere(places.slot("t", 5))
    assert named == Lookup("ottla-sink-q", {"t": [2]})
    assert (shared, apart) == (Lookup("ottla-sink-q", None), Lookup("ottla-sink-q-2", None))


def test_a_task_without_rows_asks_about_itself():
    places = Places("q", 2)
    assert places.lookups_without_rows("t") == [
        Lookup("ottla-sink-q", {"t": [2]}),
        Lookup("ottla-sink-q-2", {"t": [0]}),
    ]

"""The command that a refusal ends with."""

from ottla.spark.sink.refusals import advice


def test_all_groups_of_the_query_are_named_and_no_others():
    names = ["ottla-sink-a", "ottla-sink-q", "ottla-sink-q-7", "ottla-sink-q-x", "ottla-sink-qq"]
    text = advice("host:1", "ottla-sink-q", names)
    command = "ottla groups --bootstrap-server host:1 --delete"
    assert text.endswith(f"{command} --group ottla-sink-q --group ottla-sink-q-7")


def test_where_groups_cannot_be_listed_the_first_is_named():
    assert advice("host:1", "ottla-sink-q", []).endswith("--delete --group ottla-sink-q")


def test_a_message_does_not_name_a_thousand():
    text = advice("host:1", "g", [f"g-{n}" for n in range(1000)])
    assert text.count("--group") == 20
    assert text.endswith("(and 980 more of that name)")

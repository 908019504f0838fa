"""The controller: it makes, places, leads, moves and deletes topics, as Apache Kafka 2.8 does.

`controller` takes events from the `queue`, one at a time; `decisions` say what follows from each,
as generators of `steps` over the `context`; the `interpreter` carries the steps out.
"""

"""What operators watch of an active controller, under the names of Kafka's exporters."""

from __future__ import annotations

from ottla.controller.context import ControllerContext
from ottla.controller.decisions.leader_election import is_led_by_preferred

_OF_A_REIGN = (
    "kafkacontroller_activecontrollercount",
    "kafkacontroller_offlinepartitionscount",
    "kafkacontroller_preferredreplicaimbalancecount",
    "kafkacontroller_topicstodeletecount",
    "kafkacontroller_globaltopiccount",
    "kafkacontroller_globalpartitioncount",
)


def gauges_of(context: ControllerContext | None) -> dict[str, float]:
    """All are 0 at a broker that is not the controller: sums over the brokers are right."""
    if context is None:
        return dict.fromkeys(_OF_A_REIGN, 0)
    partitions = context.all_partitions()
    values = (
        1,
        len(context.partitions_without_leader()),
        sum(
            not is_led_by_preferred(context, tp)
            for tp in partitions
            if not context.is_queued_for_deletion(tp.topic)
        ),
        len(context.topics_to_delete),
        len(context.topics),
        len(partitions),
    )
    return dict(zip(_OF_A_REIGN, values, strict=True))

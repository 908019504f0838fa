"""What happens when records that were to be read are not there: the options decide, for planners
and tasks alike."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.spark.errors import DataLoss, TopicRecreated

if TYPE_CHECKING:
    from ottla.spark.options import SourceOptions
    from ottla.spark.source.offsets import Loss

logger = logging.getLogger("ottla.spark")


def accept(loss: Loss, options: SourceOptions) -> None:
    """Raises for a loss that the options do not allow; the others are warned of."""
    if loss.recreated and not options.restart_recreated and options.kept_group is None:
        remedy = options.remedy or (
            "onTopicRecreated=restart reads it from its beginning, continue goes on where a resize "
            "has carried the query's group to"
        )
        raise TopicRecreated(f"{loss.why}; {remedy}")
    if not loss.recreated and options.fail_on_data_loss:
        remedy = options.remedy or "failOnDataLoss=false goes on without them"
        raise DataLoss(f"{loss.why}; {remedy}")
    logger.warning("%s", loss.why)

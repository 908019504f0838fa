"""What a user of the data source sees when something cannot go on; one clear sentence each."""

from __future__ import annotations

from ottla.errors import OttlaError


class SourceError(OttlaError):
    """Anything the data source refuses or cannot do."""


class OptionError(SourceError):
    """An option that is missing, unknown or has a value that cannot be."""


class OffsetError(SourceError):
    """Offsets that are malformed, or that the topics do not have."""


class TopicMissing(SourceError):
    """A topic, or a partition of it, that does not exist."""


class DataLoss(SourceError):
    """Records that were to be read are not there any more."""


class TopicRecreated(DataLoss):
    """The topic of that name is another one than the offsets speak of."""

"""The partitions of this broker: their roles, what is appended to them, who is in sync."""

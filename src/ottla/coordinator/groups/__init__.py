"""Consumer groups: members, rebalances and committed offsets, kept in `__consumer_offsets`."""

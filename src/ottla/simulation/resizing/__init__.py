"""Topics that get other numbers of partitions while they are written and read (ADR 53)."""

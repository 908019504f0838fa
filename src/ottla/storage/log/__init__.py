"""The log of one partition replica: its segments in order, their bounds, and how it is opened."""

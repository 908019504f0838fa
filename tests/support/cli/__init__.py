"""Stand-ins for the clusters that commands talk to."""

"""Many consumer groups on one broker: their members as plain sockets, and what the rows show."""

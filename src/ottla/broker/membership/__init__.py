"""A broker as a member of its cluster: its registration, what it knows of the others, its way to
the controller."""

"""Consumer groups from a client's side: the coordinator, what members tell each other, a member."""

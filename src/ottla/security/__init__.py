"""Who is at the other end of a connection, and what that principal may do."""

"""What a broker remembers of its own doings, for those who look into it."""

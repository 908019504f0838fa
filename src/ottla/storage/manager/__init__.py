"""All logs of a broker over its data folders: loading, creating, deleting, and regular work."""

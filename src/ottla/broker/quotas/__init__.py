"""Limits on rates: of clients, of connections, of mutations, of replication."""

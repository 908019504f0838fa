"""Logs on disk in Kafka's format; the decisions are in docs/adr/0006-storage.md."""

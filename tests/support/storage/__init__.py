"""Logs, batches and log managers for unit tests of the storage."""

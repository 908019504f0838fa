"""Fetches that this broker answers, to consumers and to followers: reads, sessions, waits."""

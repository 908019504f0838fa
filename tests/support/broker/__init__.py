"""Brokers, requests and messages for unit tests of the broker."""

"""Helpers that tests share; one folder per kind of test or room of the source."""

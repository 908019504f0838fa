"""Whole clusters in one process, on virtual time: seeded, repeatable to the byte."""

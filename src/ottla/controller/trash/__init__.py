"""Deleted topics that are kept for a while, and how they come back (ADR 50)."""

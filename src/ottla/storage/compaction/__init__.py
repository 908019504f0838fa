"""Compaction: which logs need it, which records stay, and the rewriting of segments."""

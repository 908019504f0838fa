"""Limits on what others can make this process do: lines of its logs, turns of its event loop."""

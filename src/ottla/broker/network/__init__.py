"""Sockets and order: listeners, their connections, how many of them, and the way of frames in and
out."""

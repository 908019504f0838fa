"""Sockets and order: listeners and their connections, how many there may be, and how frames come
in and answers leave."""

"""For tests of bytes on the wire."""

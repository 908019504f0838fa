"""The rows of `ottla bench data` on many connections, and the compiled generator of their load."""

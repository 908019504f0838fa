"""A console as a child process, and a real browser that looks at it."""

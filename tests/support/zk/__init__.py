"""A disk that crashes, and waiting, for unit tests of the store."""

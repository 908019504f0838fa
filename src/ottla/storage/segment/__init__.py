"""One segment: its file of batches, its indexes, and how files are called and renamed."""

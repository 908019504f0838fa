"""One segment: its file of batches, its indexes, and how its files are named and renamed."""

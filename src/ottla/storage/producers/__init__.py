"""Who wrote to a partition: sequences, duplicates and open transactions, and their snapshots."""

"""Many readers of one partition, and a reader of old records beside one of new ones."""

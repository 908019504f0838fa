"""Following: what this broker fetches from the leaders of its partitions, and where it cuts."""

"""A Kafka that answers what a test tells it to."""

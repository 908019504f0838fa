"""Apache Kafka, its tools and other clients, driven beside Ottla."""

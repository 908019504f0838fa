"""`ottla configs`: kafka-configs, for topics, brokers, users and clients."""

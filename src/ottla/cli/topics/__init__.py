"""`ottla topics`: kafka-topics, on a cluster or straight on its metadata store."""

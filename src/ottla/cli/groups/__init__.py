"""`ottla groups`: kafka-consumer-groups."""

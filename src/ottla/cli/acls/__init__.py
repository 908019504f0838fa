"""`ottla acls`: who may do what, with kafka-acls' flags and lines."""

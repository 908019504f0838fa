"""What operators see of a broker: its counts, their form for Prometheus, and the events of the
controller as a topic."""

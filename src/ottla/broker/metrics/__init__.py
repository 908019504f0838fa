"""What operators see of a broker: its counts, as Prometheus reads them, and the controller's
events as a topic."""

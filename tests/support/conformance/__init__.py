"""The implementations that a conformance suite is run on, and its inputs."""

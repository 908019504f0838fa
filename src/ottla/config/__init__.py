"""Configs: Kafka's definitions, a broker's checked values, what may change while it runs."""

"""Kafka's wire format: messages compiled from schemas, frames and record batches."""

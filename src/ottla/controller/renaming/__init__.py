"""A topic gets another name: who may, the znodes, and the way through the brokers (ADR 51)."""

"""Coordinators of groups and transactions, whose state is the log of an internal topic."""

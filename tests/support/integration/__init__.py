"""Whole clusters in the test process, and what is done to them."""

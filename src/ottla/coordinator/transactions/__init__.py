"""Producers' transactions: their states and markers, kept in `__transaction_state`."""

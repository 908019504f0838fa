"""Checks of incoming batches, and what is to be written of them.

Below `log`: it gets the data it needs, changes no log, and the log does the writing.
"""

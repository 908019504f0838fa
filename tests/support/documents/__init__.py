"""Documents that are run: what a page tells its reader to do, done as it stands."""

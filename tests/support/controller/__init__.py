"""Controllers on an embedded store, and their memory by itself."""

"""Administration of a cluster: over the wire, or straight in its metadata store."""

"""Our client of the ZooKeeper protocol: a metadata store on any server that speaks it."""

"""ZooKeeper's protocol, the server and the client of it, and a store within the process."""

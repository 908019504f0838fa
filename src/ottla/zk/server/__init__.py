"""The store's own server: a tree with sessions and a journal, on ZooKeeper's protocol."""

"""A broker: requests come through `network` and `requests` to their handlers, which use the rooms
below: context, admin, metrics, fetching, replication, quotas, membership. The controller is behind
a port."""

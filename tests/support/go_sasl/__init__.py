"""A program in Go that logs in with franz-go and with kafka-go (`make peers` builds it)."""

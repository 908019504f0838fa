"""A program in Go that logs in with franz-go and kafka-go; built from the modules Go has or fetches."""

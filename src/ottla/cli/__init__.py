"""The `ottla` command: a module or a folder per command."""

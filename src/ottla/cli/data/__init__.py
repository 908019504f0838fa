"""Records on the command line: `ottla produce`, `ottla consume` and `ottla dump-log`."""

"""One module per kind of job. A stream's module has `streams(context, job)`, another's `run`."""

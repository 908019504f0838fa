"""A broker as a process of the operating system: its parts and their order, the processes of
`ottla up`, log files, tuning."""

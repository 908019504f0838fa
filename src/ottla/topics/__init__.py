"""What topics are to every part of the system: names, configs, replicas, the rules for new ones."""

"""What administrators change: topics and configs, as requests ask for it and as a running broker
takes it over."""

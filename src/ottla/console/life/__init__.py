"""The life of topics: what brokers and the controller did, merged into steps with words."""

"""Records of a topic for a page: read without a group, in bounds, in the order of their times."""

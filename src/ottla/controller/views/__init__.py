"""What others are shown of the active controller."""

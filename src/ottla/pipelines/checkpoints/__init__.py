"""Whose a checkpoint is: what tells a job from others is kept beside it, and looked at first."""

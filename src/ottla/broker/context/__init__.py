"""What a handler works with: the request's context, the broker's services, and what the messages of
several APIs have in common."""

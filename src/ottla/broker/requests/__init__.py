"""From a frame to its handler and back to the bytes of the answer, with all that requests pass on
the way: authentication, accounting, the error forms."""

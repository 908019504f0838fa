"""Python's collector of cycles, for work that makes many objects and keeps most of them."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """The collector walks over all that was made, again and again as it grows, and finds nothing:
    a fifth of a controller's failover with 20,000 partitions, a tenth of their creation. What it
    would have found meanwhile it finds when it looks at its oldest generation. Work that turns out
    small leaves everything to the next collection, as ever. Whoever has switched it off before
    keeps it so.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled and gc.get_count()[0] < gc.get_threshold()[0]:
            gc.enable()
        elif was_enabled:
            # Together: everything moves to the oldest generation, without a walk. As it is, the
            # next object that is made would begin one over all that is new.
            gc.freeze()
            gc.unfreeze()
            gc.enable()

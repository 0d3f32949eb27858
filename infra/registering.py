"""Registers resources without the cyclic garbage collector in the way.

Registration makes many objects that live until the end: each full collection walks them all again. Measured on
2 cores with 1,000 Deployments: 171 resources/s with the collector, 373 without, for a tenth more memory.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keeps the collector off while the program declares, and rare while Pulumi registers what was declared.

    Registrations go on after the program's last line, so leaving restores the collector with a generation 0 of
    50,000 objects rather than its usual size. Where somebody keeps the collector off already, nothing is touched.
    """
    if not gc.isenabled():
        yield
        return
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.set_threshold(50_000, 20, 100)
        gc.enable()

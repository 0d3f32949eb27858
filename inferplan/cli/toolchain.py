"""`inferplan toolchain`: builds the programs of the simulated cluster, once, so that nothing later waits for it."""

from __future__ import annotations

from inferplan.cli.progress import ProgressView
from inferplan.cli.screen import say
from inferplan.operations.simulated_cluster import built, ensure


def command() -> None:
    """Build the programs of the simulated cluster where they are missing; a few minutes, once."""
    if built() is None:
        say("building the control plane from its Go modules, once: about 6 minutes on 2 cores")
    with ProgressView() as view:
        ensure(view.step)

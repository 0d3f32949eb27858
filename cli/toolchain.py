"""`inferplan toolchain`: builds the programs of the simulated cluster, once, so that nothing later waits for it."""

from __future__ import annotations


def command() -> None:
    """Build the programs of the simulated cluster where they are missing; a few minutes, once."""
    from cli.progress import ProgressView
    from cli.screen import progress
    from rehearsal.toolchain import built, ensure

    console = progress()
    if built() is None:
        console.print("building the control plane from its Go modules, once: about 6 minutes on 2 cores", highlight=False, soft_wrap=True)
    with ProgressView(console) as view:
        ensure(view.step)

"""`inferplan toolchain`: builds the programs of the simulated cluster, once, so that nothing later
waits for it.
"""

from inferplan.commands.progress import ProgressView
from inferplan.rehearsal.toolchain import ensure


def command() -> None:
    """Download the programs of the simulated cluster where they are missing, once; builds what
    cannot be downloaded.
    """
    with ProgressView() as view:
        ensure(view.step)

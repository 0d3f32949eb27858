"""How a server finds out that its files are verified before it reads one of them.

The Job is awaited before a server's Deployment exists; this check also holds for a pod that starts later, on a share
that somebody tidied up meanwhile. It reads one directory entry and never touches a model file.
"""

from __future__ import annotations

import shlex

READY = "READY"


def ready_check(mount_path: str) -> list[str]:
    """The command of an init container that ends with 0 only if the mounted directory is READY.

    It needs a POSIX shell and nothing else, so it runs in the server's own image, which the node has to pull anyway.
    """
    file = f"{mount_path.rstrip('/')}/{READY}"
    advice = f"{file} is missing: the model's files are not verified; look at the preheat Job, or raise preheat.round and run up again"
    return ["sh", "-c", f"test -s {shlex.quote(file)} || {{ echo {shlex.quote(advice)} >&2; exit 1; }}"]

"""How a server finds out that its files are verified before it reads one of them.

The Job is awaited before a server's Deployment exists; this check also holds for a pod that starts later, on a share
that somebody tidied up meanwhile. It compares names and sizes and reads no model file; `inferplan verify` reads them all.
"""

from __future__ import annotations

import shlex

from components.preheat.payload.manifest import READY, SIZES

_CHECK = """\
cd "$dir" 2>/dev/null && test -s READY && test -f SIZES || fail "$ready is missing: the model's files are not verified"
count=0
while read -r size path; do
  count=$((count + 1))
  found=$(stat -L -c %s "$path" 2>/dev/null) || found=$(wc -c < "$path" 2>/dev/null) || fail "$dir/$path is missing: expected $size bytes"
  test "$found" -eq "$size" || fail "$dir/$path: expected $size bytes, found $found bytes"
done < SIZES
if command -v find >/dev/null; then
  found=$(find . -type f ! -name '.nfs*' ! -path ./READY ! -path ./SIZES ! -path ./READY.damaged | wc -l)
  test "$found" -le "$count" || fail "$dir holds $found files: expected $count"
fi
""".replace("SIZES", SIZES)
_ADVICE = "look at the preheat Job, or raise preheat.round and run up again"


def ready_check(mount_path: str) -> list[str]:
    """The command of an init container that ends with 0 only if the mounted directory is READY, with every file at its size.

    It needs a POSIX shell and coreutils, and runs in the small image of the preheat.
    """
    fail = f'fail() {{ echo "$1; "{shlex.quote(_ADVICE)} >&2; exit 1; }}\n'
    ready = shlex.quote(f"{mount_path.rstrip('/')}/{READY}")
    place = f"ready={ready}\ndir=${{ready%/*}}\n"
    return ["sh", "-c", fail + place + _CHECK]


__all__ = ["READY", "ready_check"]

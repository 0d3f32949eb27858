"""Lists the source of a preheat in a child process, because rclone and huggingface_hub are configured by environment variables."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.preheat.payload.request import Request
    from components.preheat.preview import Listing


def list_in_environment(request: Request, variables: Mapping[str, str], ca: Path | None) -> Listing:
    """The files at the source of `request`. The tools get `variables` and this process's credentials, and trust the CAs in the file `ca` too.

    Raises PreheatError if the source cannot be listed or `ca` contains no certificate.
    """
    environment = {**os.environ, **variables}
    # rclone's S3 client fails with this variable (1.60), and has its own one.
    if bundle := environment.pop("AWS_CA_BUNDLE", None):
        environment.setdefault("RCLONE_CA_CERT", bundle)
    child = [sys.executable, "-P", "-m", __name__]
    question = pickle.dumps((request, None if ca is None else str(ca)))
    ended = subprocess.run(child, input=question, env=environment, stdout=subprocess.PIPE, check=True)
    answer = pickle.loads(ended.stdout)  # noqa: S301 - written by our own child process
    if isinstance(answer, Exception):
        raise answer
    return answer


def _main() -> None:
    from components.preheat.payload.certificates import extra_cas
    from components.preheat.payload.errors import PreheatError
    from components.preheat.preview import list_source

    request, ca = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - written by our own parent process
    try:
        with extra_cas(ca):
            answer: object = list_source(request)
    except PreheatError as error:
        answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    _main()
